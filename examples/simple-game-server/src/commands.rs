//! The text commands, and the SDK calls that they make.

use agones::Sdk;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::{reserve, span};

/// The context of commands.
#[derive(Clone)]
pub(crate) struct Game {
    pub(crate) sdk: Sdk,
    pub(crate) pulse: AbortHandle,
    pub(crate) crash: mpsc::Sender<u8>,
    pub(crate) is_over: bool,
}

/// The response to a command.
pub(crate) enum Answer {
    /// The command itself.
    Ack,
    Text(String),
    Silence,
}

type Done = Result<Answer, String>;

/// Returns the message of an SDK error.
#[expect(clippy::wildcard_enum_match_arm, reason = "all other errors have texts of their own")]
pub(crate) fn why(err: agones::errors::Error) -> String {
    match err {
        agones::errors::Error::Rpc(status) => status.message().to_owned(),
        other => other.to_string(),
    }
}

fn ack<T>(result: agones::errors::Result<T>) -> Done {
    result.map(|_| Answer::Ack).map_err(why)
}

fn success<T>(result: agones::errors::Result<T>) -> Done {
    result.map(|_| Answer::Text("SUCCESS\n".to_owned())).map_err(why)
}

fn text<T>(result: agones::errors::Result<T>, write: impl Fn(T) -> String) -> Done {
    result.map(|value| Answer::Text(write(value) + "\n")).map_err(why)
}

fn number(word: &str) -> Result<i64, String> {
    word.parse().map_err(|_| format!("expected a number, found {word:?}"))
}

/// Parses an amount to add or subtract; as in other client libraries it must not be negative.
fn amount(word: &str) -> Result<i64, String> {
    match number(word)? {
        found @ ..0 => Err(format!("amount must be a positive int64, found {found}")),
        amount => Ok(amount),
    }
}

impl Game {
    /// Executes a command. Any other text is only acknowledged. Surplus words are ignored,
    /// except for commands with a variable number of arguments.
    pub(crate) async fn execute(&mut self, command: &str) -> Done {
        let words: Vec<&str> = command.split(' ').collect();
        let (verb, rest) = words.split_first().expect("splitting gives at least one part");
        match (*verb, rest) {
            ("EXIT", []) => {
                self.is_over = true;
                Ok(Answer::Ack)
            }
            ("UNHEALTHY", _) => {
                self.pulse.abort();
                Ok(Answer::Ack)
            }
            ("CRASH", code) => self.end(code).await,
            ("GAMESERVER", _) => {
                let name = |s: agones::GameServer| s.object_meta.unwrap_or_default().name;
                text(self.sdk.get_gameserver().await, |server| format!("NAME: {}", name(server)))
            }
            ("READY", _) => ack(self.sdk.ready().await),
            ("ALLOCATE", _) => ack(self.sdk.allocate().await),
            ("RESERVE", [span]) => reserve::reserve(span::parse(span)?).await.map(|()| Answer::Ack),
            ("WATCH", _) => self.watch().await,
            ("LABEL" | "ANNOTATION", rest) => self.mark(verb, rest).await,
            (verb, rest) if verb.contains("PLAYER") => self.players(verb, rest).await,
            (verb, rest) if verb.contains("COUNTER") => self.counters(verb, rest).await,
            (verb, rest) if verb.contains("LIST") => self.lists(verb, rest).await,
            (verb, _) => Self::other(verb),
        }
    }

    /// Executes the part of a command that follows its response.
    pub(crate) async fn settle(&mut self) {
        if std::mem::take(&mut self.is_over)
            && let Err(err) = self.sdk.shutdown().await
        {
            eprintln!("could not shut down: {}", why(err));
        }
    }

    async fn end(&mut self, code: &[&str]) -> Done {
        let code = code.first().and_then(|code| code.parse::<i64>().ok()).unwrap_or(1);
        // The operating system uses the lowest byte.
        let [lowest, ..] = code.to_le_bytes();
        let _ = self.crash.send(lowest).await;
        Ok(Answer::Silence)
    }

    async fn watch(&mut self) -> Done {
        let mut changes = self.sdk.watch_gameserver().await.map_err(why)?;
        tokio::spawn(async move {
            while let Ok(Some(server)) = changes.message().await {
                eprintln!("changed: {server:?}");
            }
        });
        Ok(Answer::Ack)
    }

    async fn mark(&mut self, verb: &str, rest: &[&str]) -> Done {
        let is_label = verb == "LABEL";
        let now = Timestamp::now();
        let present = if is_label { now.as_second().to_string() } else { now.to_string() };
        let (key, value) = match rest {
            [] => ("timestamp", present.as_str()),
            [key, value] => (*key, *value),
            _ => return Err(format!("Invalid {verb} command, must use zero or 2 arguments")),
        };
        match is_label {
            true => ack(self.sdk.set_label(key, value).await),
            false => ack(self.sdk.set_annotation(key, value).await),
        }
    }

    async fn players(&mut self, verb: &str, rest: &[&str]) -> Done {
        let mut alpha = self.sdk.alpha().clone();
        match (verb, rest) {
            ("PLAYER_CAPACITY", []) => text(alpha.get_player_capacity().await, |n| n.to_string()),
            ("PLAYER_CAPACITY", [n]) => ack(alpha.set_player_capacity(number(n)?).await),
            ("PLAYER_CONNECT", [id, ..]) => ack(alpha.player_connect(*id).await),
            ("PLAYER_DISCONNECT", [id, ..]) => ack(alpha.player_disconnect(*id).await),
            ("PLAYER_CONNECTED", [id, ..]) => {
                text(alpha.is_player_connected(*id).await, |is| is.to_string())
            }
            ("GET_PLAYERS", _) => text(alpha.get_connected_players().await, |ids| ids.join(",")),
            ("PLAYER_COUNT", _) => text(alpha.get_player_count().await, |n| n.to_string()),
            (verb, _) => Self::other(verb),
        }
    }

    async fn counters(&mut self, verb: &str, rest: &[&str]) -> Done {
        let mut beta = self.sdk.beta().clone();
        match (verb, rest) {
            ("GET_COUNTER_COUNT", [key, ..]) => {
                text(beta.get_counter_count(key).await, |n| format!("COUNTER: {n}"))
            }
            ("GET_COUNTER_CAPACITY", [key, ..]) => {
                text(beta.get_counter_capacity(key).await, |n| format!("CAPACITY: {n}"))
            }
            ("INCREMENT_COUNTER", [key, n, ..]) => {
                success(beta.increment_counter(key, amount(n)?).await)
            }
            ("DECREMENT_COUNTER", [key, n, ..]) => {
                success(beta.decrement_counter(key, amount(n)?).await)
            }
            ("SET_COUNTER_COUNT", [key, n, ..]) => {
                success(beta.set_counter_count(key, number(n)?).await)
            }
            ("SET_COUNTER_CAPACITY", [key, n, ..]) => {
                success(beta.set_counter_capacity(key, number(n)?).await)
            }
            (verb, _) => Self::other(verb),
        }
    }

    async fn lists(&mut self, verb: &str, rest: &[&str]) -> Done {
        let mut beta = self.sdk.beta().clone();
        match (verb, rest) {
            ("GET_LIST_CAPACITY", [key, ..]) => {
                text(beta.get_list_capacity(key).await, |n| format!("CAPACITY: {n}"))
            }
            ("SET_LIST_CAPACITY", [key, n, ..]) => {
                success(beta.set_list_capacity(key, number(n)?).await)
            }
            ("APPEND_LIST_VALUE", [key, value, ..]) => {
                success(beta.append_list_value(key, value).await)
            }
            ("DELETE_LIST_VALUE", [key, value, ..]) => {
                success(beta.delete_list_value(key, value).await)
            }
            ("LIST_CONTAINS", [key, value, ..]) => {
                text(beta.list_contains(key, value).await, |is| format!("FOUND: {is}"))
            }
            ("GET_LIST_LENGTH", [key, ..]) => {
                text(beta.get_list_length(key).await, |n| format!("LENGTH: {n}"))
            }
            ("GET_LIST_VALUES", [key, ..]) => text(beta.get_list_values(key).await, |values| {
                let all = if values.is_empty() { "<none>".to_owned() } else { values.join(",") };
                format!("VALUES: {all}")
            }),
            (verb, _) => Self::other(verb),
        }
    }

    /// A known command with the wrong number of arguments is an error; anything else is plain text.
    fn other(verb: &str) -> Done {
        match WORDS.iter().find(|(known, _)| *known == verb) {
            Some((verb, words)) => Err(format!("Invalid {verb}, should have {words}")),
            None => Ok(Answer::Ack),
        }
    }
}

/// The number of arguments of each command that requires some.
const WORDS: &[(&str, &str)] = &[
    ("RESERVE", "1 argument"),
    ("PLAYER_CAPACITY", "0 or 1 arguments"),
    ("PLAYER_CONNECT", "1 argument"),
    ("PLAYER_DISCONNECT", "1 argument"),
    ("PLAYER_CONNECTED", "1 argument"),
    ("GET_COUNTER_COUNT", "1 argument"),
    ("INCREMENT_COUNTER", "2 arguments"),
    ("DECREMENT_COUNTER", "2 arguments"),
    ("SET_COUNTER_COUNT", "2 arguments"),
    ("GET_COUNTER_CAPACITY", "1 argument"),
    ("SET_COUNTER_CAPACITY", "2 arguments"),
    ("GET_LIST_CAPACITY", "1 argument"),
    ("SET_LIST_CAPACITY", "2 arguments"),
    ("LIST_CONTAINS", "2 arguments"),
    ("GET_LIST_LENGTH", "1 argument"),
    ("GET_LIST_VALUES", "1 argument"),
    ("APPEND_LIST_VALUE", "2 arguments"),
    ("DELETE_LIST_VALUE", "2 arguments"),
];
