use super::*;

fn parse(line: &str) -> Result<Flags, FlagError> {
    Flags::parse(line.split_whitespace().map(str::to_owned))
}

fn problem(line: &str) -> String {
    let Err(FlagError::Usage(message)) = parse(line) else { panic!("{line} is accepted") };
    message
}

#[test]
fn every_default_is_a_value_of_its_kind_and_every_name_is_there_once() {
    for (at, flag) in FLAGS.iter().enumerate() {
        let is_list = matches!(flag.kind, Kind::Text | Kind::List | Kind::Names);
        assert!(is_list || !flag.default.is_empty(), "{}", flag.name);
        flag.kind.check(flag.default).unwrap();
        assert!(!flag.note.is_empty(), "{}", flag.name);
        assert!(FLAGS[..at].iter().all(|other| other.name != flag.name), "{}", flag.name);
    }
    assert!(FLAGS.len() > 160, "{}", FLAGS.len());
}

#[test]
fn flags_are_written_in_every_way_of_go() {
    for (line, wanted) in [
        ("--scan-interval 5s", 5),
        ("--scan-interval=5s", 5),
        ("-scan-interval=5s", 5),
        ("-scan-interval 5s", 5),
        ("--scan_interval=5s", 5),
        ("--scan-interval=1s --scan-interval=5s", 5),
        ("-- --scan-interval=5s", 10),
        ("--scan-interval=1m30s", 90),
    ] {
        let parsed = parse(line).unwrap();
        assert_eq!(parsed.duration("scan-interval").as_secs(), wanted, "{line}");
    }
    for (line, wanted) in [
        ("", true),
        ("--leader-elect", true),
        ("--leader-elect=false", false),
        ("--leader-elect=F", false),
        ("-leader-elect=0", false),
        // The word after a boolean is not its value.
        ("--leader-elect false", true),
    ] {
        assert_eq!(parse(line).unwrap().bool("leader-elect"), wanted, "{line}");
    }
    for line in ["-v=4", "--v=4", "-v4", "-v 4", "--v 4"] {
        assert_eq!(parse(line).unwrap().text("v"), "4", "{line}");
    }
    assert_eq!(
        parse("--expendable-pods-priority-cutoff -20")
            .unwrap()
            .int("expendable-pods-priority-cutoff"),
        -20
    );
    assert_eq!(parse("a --leader-elect b").unwrap().ignored, ["a", "b"]);
}

#[test]
fn repeated_flags_keep_all_values() {
    let parsed = parse("--nodes=1:2:a,b --nodes 0:3:c --expander=priority,least-waste").unwrap();
    assert_eq!(parsed.list("nodes"), ["1:2:a,b", "0:3:c"]);
    assert_eq!(parsed.list("expander"), ["priority", "least-waste"]);
    assert_eq!(parse("").unwrap().list("expander"), ["least-waste"]);
    assert_eq!(parse("").unwrap().list("nodes"), Vec::<&str>::new());
}

#[test]
fn a_wrong_command_line_is_refused() {
    for (line, wanted) in [
        ("--no-such-flag", "unknown flag: --no-such-flag"),
        ("--no-such-flag=1", "unknown flag: --no-such-flag"),
        ("-vx", "unknown flag: -vx"),
        ("--scan-interval", "flag needs an argument: --scan-interval"),
        (
            "--scan-interval=5",
            "invalid argument \"5\" for \"--scan-interval\" flag: `5` is not a duration; write it like `90s`, `5m` or `1h30m`",
        ),
        (
            "--leader-elect=maybe",
            "invalid argument \"maybe\" for \"--leader-elect\" flag: expected true or false",
        ),
        (
            "--max-nodes-total=many",
            "invalid argument \"many\" for \"--max-nodes-total\" flag: expected a whole number",
        ),
        (
            "--scale-down-utilization-threshold=NaN",
            "invalid argument \"NaN\" for \"--scale-down-utilization-threshold\" flag: expected a number",
        ),
    ] {
        assert_eq!(problem(line), wanted, "{line}");
    }
    for line in ["--help", "-h", "--leader-elect -help"] {
        assert_eq!(parse(line), Err(FlagError::Help), "{line}");
    }
}

#[test]
fn help_names_every_flag() {
    let text = help("cluster-autoscaler");
    for flag in FLAGS.iter() {
        assert!(text.contains(&format!("--{}", flag.name)), "{}", flag.name);
    }
    let line = text.lines().find(|line| line.contains("--scan-interval")).unwrap();
    assert!(line.ends_with("[default: 10s]"), "{line}");
}

#[test]
fn the_page_of_differences_gives_the_cause_for_each_flag_without_effect() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compatibility.md");
    let page = std::fs::read_to_string(page).unwrap();
    for flag in FLAGS.iter().filter(|flag| flag.effect != Effect::Acts) {
        let (name, cause) = (format!("`--{}`", flag.name), format!(" | {} |", flag.note));
        let row = page.lines().find(|line| line.contains(&name) && line.ends_with(&cause));
        assert!(row.is_some(), "{name}{cause}");
    }
}
