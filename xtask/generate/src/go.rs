//! Reads from the Go types what the OpenAPI documents leave out.
//!
//! The sources of the API packages are regular enough to be read line by line: a struct is `type Name struct {`, its
//! fields are `Name Type` and a tag, and it ends with a brace in the first column.

use std::collections::BTreeMap;
use std::path::Path;

use regex::Regex;

use crate::kinds::PACKAGES;

/// A field of a Go struct, as its JSON tag describes it.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// The type, as Go's reflection prints it, with its pointer.
    pub go: String,
    /// The embedded structs that the field comes through.
    pub through: Vec<String>,
    pub omit_empty: bool,
    pub omit_zero: bool,
    /// The field's number in protobuf, after the numbers of the embedded structs; absent where it has none.
    pub number: Option<String>,
}

/// The facts found in the sources, by OpenAPI name of the type.
#[derive(Debug, Default)]
pub(crate) struct GoTypes {
    structs: BTreeMap<String, Struct>,
    enums: BTreeMap<String, Vec<String>>,
}

#[derive(Debug, Default)]
struct Struct {
    fields: BTreeMap<String, Field>,
    /// The embedded structs, with their numbers in protobuf.
    inlined: Vec<(String, Option<String>)>,
}

impl GoTypes {
    /// Finds a field of a type, also in the structs that it embeds.
    pub(crate) fn field(&self, type_name: &str, field: &str) -> Option<Field> {
        let found = self.structs.get(type_name)?;
        found.fields.get(field).cloned().or_else(|| {
            let inlined = |(name, number): &(String, Option<String>)| match name.rsplit('.').next()
            {
                Some("TypeMeta") => matches!(field, "kind" | "apiVersion").then(|| Field {
                    go: "string".into(),
                    through: Vec::new(),
                    omit_empty: true,
                    omit_zero: false,
                    number: None,
                }),
                local => self.field(name, field).map(|mut found| {
                    found.through.insert(0, local.unwrap_or_default().to_owned());
                    let path = number.as_ref().zip(found.number.as_ref());
                    found.number = path.map(|(outer, inner)| format!("{outer}.{inner}"));
                    found
                }),
            };
            found.inlined.iter().find_map(inlined)
        })
    }

    /// The values of the enumeration that a field of this Go type, in the package of `type_name`, takes.
    pub(crate) fn values(&self, type_name: &str, go: &str) -> Option<&Vec<String>> {
        let local = go.trim_start_matches('*').rsplit('.').next()?;
        let package = type_name.rsplit_once('.')?.0;
        self.enums.get(&format!("{package}.{local}"))
    }
}

/// Reads the sources of every package that the wanted types come from.
pub(crate) fn read(modules: &Path) -> anyhow::Result<GoTypes> {
    let mut types = GoTypes::default();
    for (prefix, module, folder) in PACKAGES {
        let root = modules.join(module).join(folder);
        visit(&root, prefix, &mut types)?;
    }
    Ok(types)
}

fn visit(folder: &Path, prefix: &str, types: &mut GoTypes) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
        if path.is_dir() {
            visit(&path, &format!("{prefix}{name}."), types)?;
        } else if name.ends_with(".go")
            && !name.ends_with("_test.go")
            && !name.contains("generated")
        {
            parse(&std::fs::read_to_string(&path)?, prefix, types);
        }
    }
    Ok(())
}

fn parse(source: &str, prefix: &str, types: &mut GoTypes) {
    let field = pattern(r#"^\s+(?:(\w+)\s+)?([*\[\]\w.]+)\s+`(?:\S+ )*?json:"([^"]*)""#);
    let number = pattern(r#"protobuf:"\w+,(\d+)"#);
    let constant = pattern(r#"^\s+(?:\w+)\s+(\w+)\s*=\s*"([^"]*)""#);
    let named = pattern(r"^type (\w+) string");
    let package = prefix.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let mut open: Option<String> = None;
    let mut is_enum = false;
    for line in source.lines() {
        if let Some(name) = &open {
            if line.starts_with('}') {
                open = None;
            } else if let Some(found) = field.captures(line) {
                let add = types.structs.entry(name.clone()).or_default();
                let number = number.captures(line).map(|n| n[1].to_owned());
                let is_named = found.get(1).is_some();
                add_field(add, prefix, package, is_named, &found[2], &found[3], number);
            }
            continue;
        }
        if let Some(rest) = line.strip_prefix("type ")
            && let Some(name) = rest.strip_suffix(" struct {")
        {
            open = Some(format!("{prefix}{name}"));
        } else if is_enum && let Some(found) = named.captures(line) {
            types.enums.entry(format!("{prefix}{}", &found[1])).or_default();
        } else if let Some(found) = constant.captures(line) {
            types
                .enums
                .entry(format!("?{prefix}{}", &found[1]))
                .or_default()
                .push(found[2].to_owned());
        }
        is_enum = line.starts_with("// +enum") || (is_enum && line.starts_with("//"));
    }
    resolve_enums(types);
}

/// Constants may stand in another file than their type, so they wait under a marked name until it is known.
fn resolve_enums(types: &mut GoTypes) {
    let known: Vec<String> = types.enums.keys().filter(|k| !k.starts_with('?')).cloned().collect();
    for name in known {
        if let Some(mut values) = types.enums.remove(&format!("?{name}"))
            && let Some(all) = types.enums.get_mut(&name)
        {
            all.append(&mut values);
            all.sort();
            all.dedup();
        }
    }
}

fn add_field(
    to: &mut Struct,
    prefix: &str,
    package: &str,
    is_named: bool,
    go: &str,
    tag: &str,
    number: Option<String>,
) {
    let mut parts = tag.split(',');
    let name = parts.next().unwrap_or_default();
    let options: Vec<&str> = parts.collect();
    if name.is_empty() && (!is_named || options.contains(&"inline")) {
        let embedded = go.trim_start_matches('*');
        let embedded = match embedded.split_once('.') {
            Some((_, foreign)) => foreign.to_owned(),
            None => format!("{prefix}{embedded}"),
        };
        to.inlined.push((embedded, number));
        return;
    }
    let field = Field {
        go: qualify(go, package),
        through: Vec::new(),
        omit_empty: options.contains(&"omitempty"),
        omit_zero: options.contains(&"omitzero"),
        number,
    };
    to.fields.insert(name.to_owned(), field);
}

/// Writes a type as Go's reflection does: names of the own package get its name in front.
fn qualify(go: &str, package: &str) -> String {
    let name = pattern(r"[A-Za-z_][\w.]*");
    name.replace_all(go, |found: &regex::Captures<'_>| {
        let name = &found[0];
        match name.split_once('.') {
            Some((alias, rest)) if alias.ends_with("v1") => format!("v1.{rest}"),
            Some(_) => name.to_owned(),
            None if name.starts_with(|c: char| c.is_uppercase()) => format!("{package}.{name}"),
            None if name == "byte" => "uint8".to_owned(),
            None => name.to_owned(),
        }
    })
    .into_owned()
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the patterns in this file are valid")
}
