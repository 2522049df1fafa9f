//! Nomad Autoscaler's policy files: what a `scaling` block, in HCL or in HCL's JSON form, means as a ScalingPolicy.
//!
//! A file is read in two steps, as there: what cannot be decoded refuses the whole file, and what is not valid refuses
//! a policy unless it is disabled.

mod block;
mod evaluate;
mod hcl;
mod json;
mod number;
mod policy;
mod strategy;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::Problem;
use block::Block;

/// One thing wrong with a file, and in which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, counted from 1.
    pub line: usize,
    /// The problem, with its block or field.
    pub problem: Problem,
}

/// Which way a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// HCL's own.
    Hcl,
    /// JSON that stands for HCL.
    Json,
}

/// Reads a file into one ScalingPolicy for each `scaling` block, in the order of the file. A policy that is not enabled
/// is not checked any further than that it can be read.
pub fn read(text: &str, form: Form) -> Result<Vec<Value>, Vec<Fault>> {
    let root = match form {
        Form::Hcl => hcl::read(text),
        Form::Json => json::read(text),
    };
    let root = root.map_err(|fault| vec![fault])?;
    let mut faults = Faults::default();
    faults.known(&root, "", &[]);
    let mut names = BTreeSet::new();
    let mut policies = Vec::new();
    for block in &root.blocks {
        if !names.insert(block.label.clone()) {
            let path = format!("scaling.{}", block.label);
            faults.add(block.line, path, "is the name of two blocks");
        }
        policies.extend(policy::read(block, &mut faults));
    }
    if faults.all.is_empty() { Ok(policies) } else { Err(faults.sorted()) }
}

/// The problems of a file, collected while it is read.
#[derive(Default)]
struct Faults {
    all: Vec<Fault>,
}

impl Faults {
    fn add(&mut self, line: usize, path: impl Into<String>, message: impl Into<String>) {
        self.all.push(Fault { line, problem: Problem::new(path, message) });
    }

    /// Notes every attribute of a block that has no meaning there.
    fn known(&mut self, block: &Block, path: &str, known: &[&str]) {
        for attribute in &block.attributes {
            if known.contains(&attribute.name.as_str()) {
                continue;
            }
            let distance = |name: &&str| strsim::damerau_levenshtein(name, &attribute.name);
            let nearest = known.iter().copied().min_by_key(|name| distance(name));
            let near = nearest.filter(|n| distance(n) <= 2.max(attribute.name.len() / 2));
            let hint = near.map(|n| format!(", did you mean `{n}`?")).unwrap_or_default();
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{}", attribute.name);
            self.add(attribute.line, path, format!("unknown field{hint}"));
        }
    }

    fn sorted(mut self) -> Vec<Fault> {
        self.all.sort_by_key(|fault| fault.line);
        self.all
    }
}

#[cfg(test)]
mod tests;
