//! `up` applies the files on its command line.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::plimsoll;

/// A running `up`, which ends with the test.
struct Up(Child);

impl Up {
    fn start(folder: &Path, file: &Path) -> Self {
        let child = plimsoll()
            .args(["up", "--api-only", "--ephemeral", "--listen", "127.0.0.1:0", "--data"])
            .arg(folder)
            .arg(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Self(child.unwrap())
    }

    /// Returns the lines of standard output as they are printed.
    fn stdout_lines(&mut self) -> Receiver<String> {
        let lines = BufReader::new(self.0.stdout.take().unwrap()).lines().map_while(Result::ok);
        let (sender, receiver) = channel();
        std::thread::spawn(move || lines.into_iter().try_for_each(|line| sender.send(line)));
        receiver
    }
}

/// Waits until a line is printed.
fn is_printed(lines: &Receiver<String>, wanted: &str) -> bool {
    let until = Instant::now() + Duration::from_secs(120);
    let next = || lines.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
    std::iter::from_fn(next).any(|line| line == wanted)
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn config_map(name: &str) -> String {
    format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}")
}

#[test]
fn objects_are_applied_while_their_file_is_still_being_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("objects.yaml");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let mut up = Up::start(folder.path(), &path);
    let lines = up.stdout_lines();
    let mut file = File::options().write(true).open(&path).unwrap();
    file.write_all(b"apiVersion: v1\nitems:\n").unwrap();
    for number in 0..300 {
        let text = "x".repeat(1000);
        let object = config_map(&format!("a{number}, annotations: {{text: {text}}}"));
        writeln!(file, "- {object}").unwrap();
    }
    assert!(is_printed(&lines, "configmap/a0 applied"), "nothing is applied before the end");
    file.write_all(b"kind: List\n---\n").unwrap();
    writeln!(file, "{}", config_map("last")).unwrap();
    drop(file);
    assert!(is_printed(&lines, "configmap/last applied"), "the end is not applied");
}

#[test]
fn a_refusal_says_once_what_is_wrong_and_where() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("objects.yaml");
    let good = config_map("a");
    for (text, wanted) in [
        (
            "apiVersion: example.com/v1\nkind: Foo\nmetadata: {name: a}\n".to_owned(),
            "plimsoll: could not apply foo/a: no kind `Foo` is served at `example.com/v1`; check apiVersion and kind, \
             or apply its CustomResourceDefinition first"
                .to_owned(),
        ),
        (
            format!("{good}\n---\n{{a: 1, a: 2}}\n"),
            format!("plimsoll: {}: document 2: a: duplicate key at line 2", file.display()),
        ),
        (
            good.replace("name: a", "name: Not_A_Name"),
            "plimsoll: could not apply configmap/Not_A_Name: ConfigMap \"Not_A_Name\" is invalid: metadata.name: \
             Invalid value: \"Not_A_Name\": "
                .to_owned(),
        ),
        ("kind: ConfigMap\n".to_owned(), "plimsoll: could not apply configmap/: ".to_owned()),
    ] {
        fs::write(&file, text).unwrap();
        let mut up = Up::start(folder.path(), &file);
        let lines = BufReader::new(up.0.stderr.take().unwrap()).lines().map_while(Result::ok);
        let errors: Vec<String> = lines.filter(|line| line.starts_with("plimsoll: ")).collect();
        assert!(!up.0.wait().unwrap().success());
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].starts_with(&wanted), "{errors:?}");
        let cause = errors[0].rsplit(": ").next().unwrap();
        assert_eq!(errors[0].matches(cause).count(), 1, "{errors:?}");
        assert!(!errors[0].contains(" { "), "{errors:?}");
    }
}
