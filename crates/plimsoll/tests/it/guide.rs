//! Every command line in the documentation runs, and its output is the one on the page.
//!
//! A block fenced as `console` is a session: lines that start with `$ ` are typed in the project's root, the lines
//! below each are what it prints, to the letter. `PLIMSOLL_BLESS=1` writes the present output into the pages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::root;

#[test]
fn documented_commands_print_what_the_pages_say() {
    let bless = std::env::var_os("PLIMSOLL_BLESS").is_some();
    let mut wrong = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let fresh = replay(&text);
        if text == fresh {
            continue;
        }
        if bless {
            fs::write(&page, fresh).unwrap();
            continue;
        }
        let first = text.lines().zip(fresh.lines()).find(|(a, b)| a != b);
        wrong.push(format!("{}: (page, program) = {first:?}", page.display()));
    }
    assert!(wrong.is_empty(), "run `cargo xtask generate` to accept:\n{}", wrong.join("\n"));
}

/// The commands of the page run in tests of their own, on the examples that it names; here they are compared with the page.
#[test]
fn the_page_about_services_has_the_objects_of_the_examples_and_valid_commands() {
    let page = fs::read_to_string(root().join("docs/guide/services.md")).unwrap();
    let examples =
        fs::read_dir(root().join("examples")).unwrap().map(|entry| entry.unwrap().path());
    let examples: Vec<String> = examples
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| without_comments(&fs::read_to_string(path).unwrap()))
        .collect();
    let excerpts: Vec<String> = blocks(&page, "yaml").iter().map(|b| without_comments(b)).collect();
    assert!(excerpts.len() >= 3, "{excerpts:?}");
    for excerpt in excerpts {
        assert!(examples.iter().any(|example| example.contains(&excerpt)), "{excerpt}");
    }
    for line in commands(&page) {
        let Some(typed) = line.strip_prefix("plimsoll ") else { continue };
        let typed = typed.split(['|', '#']).next().unwrap();
        let arguments: Vec<&str> = typed.split_whitespace().collect();
        for file in arguments.iter().filter(|argument| argument.ends_with(".yaml")) {
            assert!(root().join(file).exists(), "{line}");
        }
        // It parses what comes before, and then prints the help.
        let parsed = crate::plimsoll().args(&arguments).arg("--help").output().unwrap();
        assert!(parsed.status.success(), "{line}: {}", String::from_utf8_lossy(&parsed.stderr));
    }
}

/// Returns the section of a page with a title.
pub(crate) fn section<'a>(page: &'a str, title: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n## {title}\n")).expect("the page has the section");
    rest.split("\n## ").next().unwrap_or(rest)
}

/// Returns the lines that a reader types.
pub(crate) fn commands(text: &str) -> Vec<String> {
    blocks(text, "sh").iter().flat_map(|block| block.lines()).map(str::to_owned).collect()
}

/// Returns the blocks of a page that are fenced as a language, without the indentation of their fence.
pub(crate) fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}");
    let mut blocks: Vec<String> = Vec::new();
    // The indentation of the block that is open.
    let mut open = None;
    for line in page.lines() {
        let text = line.trim_start();
        match open {
            None if text == fence => {
                open = Some(line.len() - text.len());
                blocks.push(String::new());
            }
            Some(_) if text == "```" => open = None,
            Some(indent) => {
                let block = blocks.last_mut().unwrap();
                block.push_str(line.get(indent..).unwrap_or_default());
                block.push('\n');
            }
            None => {}
        }
    }
    blocks
}

fn without_comments(yaml: &str) -> String {
    let lines = yaml.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

fn pages() -> Vec<PathBuf> {
    let guide = fs::read_dir(root().join("docs/guide")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> = guide.filter(|p| p.extension().is_some_and(|e| e == "md")).collect();
    pages.push(root().join("README.md"));
    pages.sort();
    pages
}

/// Returns the page with every session's output as it is now.
fn replay(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    let mut in_session = false;
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        if line.starts_with("```") {
            in_session = line == "```console";
            continue;
        }
        if let Some(typed) = line.strip_prefix("$ ").filter(|_| in_session) {
            while lines.next_if(|l| !l.starts_with("```") && !l.starts_with("$ ")).is_some() {}
            out.push_str(&run(typed));
        }
    }
    out
}

fn run(typed: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_plimsoll"));
    let path = std::env::join_paths(
        std::iter::once(program.parent().unwrap().to_path_buf())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let done = Command::new("sh")
        .args(["-c", &format!("{typed} 2>&1")])
        .current_dir(root())
        .env("PATH", path.unwrap())
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    String::from_utf8(done.stdout).unwrap()
}
