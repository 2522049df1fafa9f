//! `plimsoll completions`: shells accept the output.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::plimsoll;

#[test]
fn every_shell_gets_the_commands_and_bash_takes_them() {
    let printed = |shell: &str| {
        let done = plimsoll().args(["completions", shell]).output().unwrap();
        assert!(done.status.success(), "{shell}");
        String::from_utf8(done.stdout).unwrap()
    };
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = printed(shell);
        assert!(script.contains("allocate") && script.contains("simulated-nodes"), "{shell}");
    }
    // The words that bash offers after `plimsoll al`.
    let asked = "COMP_WORDS=(plimsoll al) COMP_CWORD=1; _plimsoll plimsoll al plimsoll; echo ${COMPREPLY[@]}";
    let mut bash = Command::new("bash");
    bash.arg("--norc").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut bash = bash.spawn().unwrap();
    let script = format!("{}\n{asked}\n", printed("bash"));
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let done = bash.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stdout).trim(), "allocate");
}
