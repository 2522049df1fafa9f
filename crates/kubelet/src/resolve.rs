//! Finds the program that runs for a container.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;

use crate::program::{Program, by_image};
use crate::settings::Local;

/// What runs in place of a container.
pub(crate) enum Runner {
    /// A program in this process, with its arguments.
    InProcess(Arc<dyn Program>, Vec<String>),
    /// A program of this machine, with its arguments.
    Local(OsString, Vec<String>),
    /// A container of the Docker Engine.
    Docker,
}

/// Finds the program of a container whose command and arguments are expanded.
pub(crate) fn program(
    local: &Local,
    container: &Container,
    command: &[String],
    args: &[String],
    has_docker: bool,
) -> Result<Runner, String> {
    let image = container.image.as_deref().unwrap_or_default();
    let all = || command.iter().chain(args).cloned().collect();
    if let Some(program) = local.programs.find(image) {
        return Ok(Runner::InProcess(Arc::clone(program), all()));
    }
    if let Some(mapped) = by_image(&local.images, image) {
        let Some((program, first)) = mapped.split_first() else {
            return Err(format!("the image {image} is mapped to no program"));
        };
        let found = find(program, container.working_dir.as_deref());
        let found = found.ok_or_else(|| {
            format!("the image {image} is mapped to {program}, which is not there")
        })?;
        let args = first.iter().chain(command.iter().skip(1)).chain(args);
        return Ok(Runner::Local(found.into(), args.cloned().collect()));
    }
    let program = command.first();
    let found = program.and_then(|program| {
        find(program, container.working_dir.as_deref())
            .or_else(|| in_volume(program, container).filter(|_| !has_docker))
    });
    match (found, program) {
        (Some(found), _) => {
            let args = command.iter().skip(1).chain(args).cloned().collect();
            Ok(Runner::Local(found.into(), args))
        }
        (None, _) if has_docker => Ok(Runner::Docker),
        (None, Some(program)) => Err(format!(
            "no program {program} on this machine to run for image {image}: install it, map the image to a program with \
             --image {image}=PROGRAM, or start a Docker Engine"
        )),
        (None, None) => Err(format!(
            "image {image} is not a program here: give the container a command that is a program of this machine, map the \
             image to one with --image {image}=PROGRAM, or start a Docker Engine"
        )),
    }
}

/// Whether a container, before its command is expanded, is one for the Docker Engine.
pub(crate) fn is_for_docker(local: &Local, container: &Container) -> bool {
    let command = container.command.as_deref().unwrap_or_default();
    matches!(program(local, container, command, &[], true), Ok(Runner::Docker))
}

/// Returns the path of a program inside a volume, which is there only once the volume is mounted.
fn in_volume(program: &str, container: &Container) -> Option<PathBuf> {
    let path = Path::new(program);
    let mut mounts = container.volume_mounts.iter().flatten();
    mounts.any(|mount| path.starts_with(&mount.mount_path)).then(|| path.to_owned())
}

/// Finds a program as a shell would: by its path, or in one of the directories of PATH.
fn find(program: &str, dir: Option<&str>) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        let path = dir.map_or_else(|| PathBuf::from(program), |dir| Path::new(dir).join(program));
        return Some(path).filter(is_program);
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(is_program)
}
