//! The name server of pods with networks of their own: `web.default.svc.cluster.local` is the cluster IP of the Service `web`.
//!
//! Pods have a search list, so that shorter names work. Other names do not exist: such a pod reaches nothing but Services.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use cluster::Key;

use super::ServiceProxy;
use crate::network::NAME_SERVER;

const PORT: u16 = 53;
/// The domain of the names of Services.
const DOMAIN: &str = ".svc.cluster.local";
/// How long an answer may be kept, in seconds. A Service that is created again has another address.
const KEEP_FOR: u32 = 5;
/// The largest question that is read.
const LARGEST: usize = 4096;
/// The length of the header of a message.
const HEADER: usize = 12;
/// A reference to the name of the question, which follows the header.
const NAME_OF_QUESTION: [u8; 2] = [0xc0, 12];

/// The pause after the socket has failed.
const RETRY_AFTER: Duration = Duration::from_millis(100);

const TYPE_A: u16 = 1;
const CLASS_INTERNET: u16 = 1;

/// Answers questions of pods, without end.
pub(super) async fn serve(proxy: &ServiceProxy) {
    let Some(services) = &proxy.machine.services else { return };
    let socket = match services.bind_udp(SocketAddr::from((NAME_SERVER, PORT))).await {
        Ok(socket) => socket,
        Err(error) => {
            tracing::warn!(%error, "the names of Services cannot be resolved in pods");
            return;
        }
    };
    let mut question = vec![0; LARGEST];
    loop {
        let Ok((length, from)) = socket.recv_from(&mut question).await else {
            tokio::time::sleep(RETRY_AFTER).await;
            continue;
        };
        if let Some(answer) = answer(&question[..length], |name| find(proxy, name)) {
            let _ = socket.send_to(&answer, from).await;
        }
    }
}

/// Returns the cluster IP of a Service by its full name; `None`: there is no such name.
fn find(proxy: &ServiceProxy, name: &str) -> Option<Ipv4Addr> {
    let (name, namespace) = name.strip_suffix(DOMAIN)?.split_once('.')?;
    let service = proxy.services.get(&Key::new(namespace, name))?;
    service.spec.as_ref()?.cluster_ip.as_deref()?.parse().ok()
}

/// Answers a question; `None`: it is not one.
fn answer(question: &[u8], find: impl Fn(&str) -> Option<Ipv4Addr>) -> Option<Vec<u8>> {
    let header = question.get(..HEADER)?;
    // A response, another operation, or not exactly one question.
    if header[2] & 0xf8 != 0 || header[4..6] != [0, 1] {
        return None;
    }
    let (name, end) = read_name(question)?;
    let kind = u16::from_be_bytes([*question.get(end)?, *question.get(end + 1)?]);
    let class = u16::from_be_bytes([*question.get(end + 2)?, *question.get(end + 3)?]);
    let address = find(&name);
    let records = address.filter(|_| kind == TYPE_A && class == CLASS_INTERNET);
    let mut answer = Vec::with_capacity(end + 32);
    answer.extend_from_slice(&header[..2]);
    // An authoritative response, which keeps the flag for recursion; no such name, if it has no address of any kind.
    answer.push(0x84 | (header[2] & 0x01));
    answer.push(if address.is_some() { 0x80 } else { 0x83 });
    answer.extend_from_slice(&[0, 1, 0, u8::from(records.is_some()), 0, 0, 0, 0]);
    answer.extend_from_slice(question.get(HEADER..end + 4)?);
    if let Some(address) = records {
        answer.extend_from_slice(&NAME_OF_QUESTION);
        answer.extend_from_slice(&TYPE_A.to_be_bytes());
        answer.extend_from_slice(&CLASS_INTERNET.to_be_bytes());
        answer.extend_from_slice(&KEEP_FOR.to_be_bytes());
        answer.extend_from_slice(&[0, 4]);
        answer.extend_from_slice(&address.octets());
    }
    Some(answer)
}

/// Reads the name in a question, in lower case, and returns where it ends.
fn read_name(question: &[u8]) -> Option<(String, usize)> {
    let mut at = HEADER;
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*question.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join("."), at));
        }
        // Longer ones would be references to other names, of which a question has none.
        if length > 63 {
            return None;
        }
        let label = question.get(at..at + length)?;
        labels.push(std::str::from_utf8(label).ok()?.to_ascii_lowercase());
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEB: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 7);

    fn question(name: &str, kind: u8) -> Vec<u8> {
        let mut question = vec![0xab, 0xcd, 0x01, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            question.push(u8::try_from(label.len()).unwrap());
            question.extend_from_slice(label.as_bytes());
        }
        question.extend_from_slice(&[0, 0, kind, 0, 1]);
        question
    }

    fn find(name: &str) -> Option<Ipv4Addr> {
        (name == "web.games.svc.cluster.local").then_some(WEB)
    }

    #[test]
    fn a_service_has_an_address_of_version_4_and_no_other() {
        for (name, kind, code, octets) in [
            ("web.games.svc.cluster.local", 1, 0x80, Some([10, 96, 0, 7])),
            ("Web.Games.svc.cluster.LOCAL", 1, 0x80, Some([10, 96, 0, 7])),
            ("web.games.svc.cluster.local", 28, 0x80, None),
            ("web.games", 1, 0x83, None),
        ] {
            let asked = question(name, kind);
            let answer = answer(&asked, find).unwrap();
            assert_eq!(answer[..4], [0xab, 0xcd, 0x85, code], "{name} {kind}");
            assert_eq!(answer[4..8], [0, 1, 0, u8::from(octets.is_some())], "{name} {kind}");
            assert_eq!(answer[12..asked.len()], asked[12..], "{name} {kind}");
            let record = octets.map(|octets| octets.to_vec()).unwrap_or_default();
            assert!(answer.ends_with(&record), "{name} {kind}");
            let length = asked.len() + octets.map_or(0, |_| 16);
            assert_eq!(answer.len(), length, "{name} {kind}");
        }
    }

    #[test]
    fn what_is_no_question_is_not_answered() {
        let asked = question("web.games.svc.cluster.local", 1);
        for length in 0..asked.len() {
            assert_eq!(answer(&asked[..length], find), None, "the first {length} bytes");
        }
        let response = {
            let mut asked = asked.clone();
            asked[2] |= 0x80;
            asked
        };
        let two = {
            let mut asked = asked.clone();
            asked[5] = 2;
            asked
        };
        let reference = {
            let mut asked = asked;
            asked[12] = 0xc0;
            asked
        };
        for wrong in [response, two, reference] {
            assert_eq!(answer(&wrong, find), None);
        }
    }
}
