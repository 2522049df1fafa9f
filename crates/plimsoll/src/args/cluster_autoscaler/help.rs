//! The help text: all flags, aligned, those that act first.

use super::table::{Effect, FLAGS, Flag, section_titles};

/// Returns the help text for a program of some name.
pub(crate) fn help(program: &str) -> String {
    let mut text = format!(
        "Adds and removes nodes as Cluster Autoscaler does, with its flags\n\nUsage: {program} FLAGS\n"
    );
    for title in section_titles() {
        part(&mut text, title, |flag| flag.effect == Effect::Acts && flag.section == title);
    }
    part(&mut text, "Accepted without effect", |flag| flag.effect == Effect::None);
    part(&mut text, "Of klog, accepted without effect", |flag| flag.effect == Effect::Log);
    part(&mut text, "Of earlier releases, accepted without effect", |flag| {
        flag.effect == Effect::Retired
    });
    text
}

/// Appends the flags that belong to a part, if there are any.
fn part(text: &mut String, title: &str, belongs: impl Fn(&Flag) -> bool) {
    let rows: Vec<(String, String)> =
        FLAGS.iter().filter(|flag| belongs(flag)).map(|flag| (left(flag), right(flag))).collect();
    let Some(width) = rows.iter().map(|(left, _)| left.chars().count()).max() else { return };
    *text += &format!("\n{title}:\n");
    for (left, right) in rows {
        *text += &format!("  {left:width$}  {right}\n");
    }
}

fn left(flag: &Flag) -> String {
    let text = format!("--{} {}", flag.name, flag.kind.value_name());
    text.trim_end().to_owned()
}

fn right(flag: &Flag) -> String {
    let shown = flag.effect == Effect::Acts && !flag.default.is_empty();
    if shown { format!("{} [default: {}]", flag.note, flag.default) } else { flag.note.to_owned() }
}
