//! The text commands, and what each does with the SDK.

use agones::Sdk;
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::span;

/// What commands work on.
#[derive(Clone)]
pub(crate) struct Game {
    pub(crate) sdk: Sdk,
    pub(crate) pulse: AbortHandle,
    pub(crate) crash: mpsc::Sender<u8>,
    pub(crate) is_over: bool,
}

/// What a command is answered with.
pub(crate) enum Answer {
    /// The command itself.
    Ack,
    Text(String),
    Silence,
}

type Done = Result<Answer, String>;

/// Makes an error of the SDK readable.
#[expect(clippy::wildcard_enum_match_arm, reason = "what else there is has its own text")]
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

impl Game {
    /// Does what a command says. Any other text is only acknowledged.
    pub(crate) async fn obey(&mut self, command: &str) -> Done {
        let words: Vec<&str> = command.split(' ').collect();
        let (verb, rest) = words.split_first().expect("splitting gives at least one part");
        match (*verb, rest) {
            ("EXIT", []) => {
                self.is_over = true;
                Ok(Answer::Ack)
            }
            ("UNHEALTHY", []) => {
                self.pulse.abort();
                Ok(Answer::Ack)
            }
            ("CRASH", code) => self.end(code).await,
            ("GAMESERVER", []) => {
                let name = |s: agones::GameServer| s.object_meta.unwrap_or_default().name;
                text(self.sdk.get_gameserver().await, |server| format!("NAME: {}", name(server)))
            }
            ("READY", []) => ack(self.sdk.ready().await),
            ("ALLOCATE", []) => ack(self.sdk.allocate().await),
            ("RESERVE", [span]) => ack(self.sdk.reserve(span::parse(span)?).await),
            ("WATCH", []) => self.watch().await,
            ("LABEL" | "ANNOTATION", rest) => self.mark(verb, rest).await,
            (verb, rest) if verb.contains("PLAYER") => self.players(verb, rest).await,
            (verb, rest) if verb.contains("COUNTER") => self.counters(verb, rest).await,
            (verb, rest) if verb.contains("LIST") => self.lists(verb, rest).await,
            (verb, rest) => Self::other(verb, rest),
        }
    }

    /// Does what comes after the answer.
    pub(crate) async fn settle(&mut self) {
        if std::mem::take(&mut self.is_over)
            && let Err(err) = self.sdk.shutdown().await
        {
            eprintln!("could not shut down: {}", why(err));
        }
    }

    async fn end(&mut self, code: &[&str]) -> Done {
        let code = match code {
            [] => 1,
            [code] => code.parse().map_err(|_| format!("expected an exit code, found {code:?}"))?,
            _ => return Self::other("CRASH", code),
        };
        let _ = self.crash.send(code).await;
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
            _ => return Err(format!("{verb} takes a key and a value, or neither")),
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
            ("PLAYER_CONNECT", [id]) => ack(alpha.player_connect(*id).await),
            ("PLAYER_DISCONNECT", [id]) => ack(alpha.player_disconnect(*id).await),
            ("PLAYER_CONNECTED", [id]) => {
                text(alpha.is_player_connected(*id).await, |is| is.to_string())
            }
            ("GET_PLAYERS", []) => text(alpha.get_connected_players().await, |ids| ids.join(",")),
            ("PLAYER_COUNT", []) => text(alpha.get_player_count().await, |n| n.to_string()),
            (verb, rest) => Self::other(verb, rest),
        }
    }

    async fn counters(&mut self, verb: &str, rest: &[&str]) -> Done {
        let mut beta = self.sdk.beta().clone();
        match (verb, rest) {
            ("GET_COUNTER_COUNT", [key]) => {
                text(beta.get_counter_count(key).await, |n| format!("COUNTER: {n}"))
            }
            ("GET_COUNTER_CAPACITY", [key]) => {
                text(beta.get_counter_capacity(key).await, |n| format!("CAPACITY: {n}"))
            }
            ("INCREMENT_COUNTER", [key, n]) => {
                success(beta.increment_counter(key, number(n)?).await)
            }
            ("DECREMENT_COUNTER", [key, n]) => {
                success(beta.decrement_counter(key, number(n)?).await)
            }
            ("SET_COUNTER_COUNT", [key, n]) => {
                success(beta.set_counter_count(key, number(n)?).await)
            }
            ("SET_COUNTER_CAPACITY", [key, n]) => {
                success(beta.set_counter_capacity(key, number(n)?).await)
            }
            (verb, rest) => Self::other(verb, rest),
        }
    }

    async fn lists(&mut self, verb: &str, rest: &[&str]) -> Done {
        let mut beta = self.sdk.beta().clone();
        match (verb, rest) {
            ("GET_LIST_CAPACITY", [key]) => {
                text(beta.get_list_capacity(key).await, |n| format!("CAPACITY: {n}"))
            }
            ("SET_LIST_CAPACITY", [key, n]) => {
                success(beta.set_list_capacity(key, number(n)?).await)
            }
            ("APPEND_LIST_VALUE", [key, value]) => {
                success(beta.append_list_value(key, value).await)
            }
            ("DELETE_LIST_VALUE", [key, value]) => {
                success(beta.delete_list_value(key, value).await)
            }
            ("LIST_CONTAINS", [key, value]) => {
                text(beta.list_contains(key, value).await, |is| format!("FOUND: {is}"))
            }
            ("GET_LIST_LENGTH", [key]) => {
                text(beta.get_list_length(key).await, |n| format!("LENGTH: {n}"))
            }
            ("GET_LIST_VALUES", [key]) => text(beta.get_list_values(key).await, |values| {
                let all = if values.is_empty() { "<none>".to_owned() } else { values.join(",") };
                format!("VALUES: {all}")
            }),
            (verb, rest) => Self::other(verb, rest),
        }
    }

    /// A known command with the wrong number of words is an error; anything else is just text.
    fn other(verb: &str, rest: &[&str]) -> Done {
        if VERBS.contains(&verb) {
            return Err(format!("{verb} does not take {} words", rest.len()));
        }
        Ok(Answer::Ack)
    }
}

/// Every command.
const VERBS: &[&str] = &[
    "EXIT",
    "UNHEALTHY",
    "GAMESERVER",
    "READY",
    "ALLOCATE",
    "RESERVE",
    "WATCH",
    "LABEL",
    "ANNOTATION",
    "CRASH",
    "PLAYER_CAPACITY",
    "PLAYER_CONNECT",
    "PLAYER_DISCONNECT",
    "PLAYER_CONNECTED",
    "GET_PLAYERS",
    "PLAYER_COUNT",
    "GET_COUNTER_COUNT",
    "INCREMENT_COUNTER",
    "DECREMENT_COUNTER",
    "SET_COUNTER_COUNT",
    "GET_COUNTER_CAPACITY",
    "SET_COUNTER_CAPACITY",
    "GET_LIST_CAPACITY",
    "SET_LIST_CAPACITY",
    "LIST_CONTAINS",
    "GET_LIST_LENGTH",
    "GET_LIST_VALUES",
    "APPEND_LIST_VALUE",
    "DELETE_LIST_VALUE",
];
