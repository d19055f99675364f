//! Reads the manifest and `agents.toml` from disk and hands them to the check.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};
use std::num::NonZero;
use std::path::{Path, PathBuf};

use clap::Args;

use super::failure::{Failure, Kind, Problem, reason};
use super::root::{self, OwnRoot};
use super::words::count;
use crate::control::EnvSources;
use crate::domain::environment::{filter_client_env, names_to_pass};
use crate::domain::event::ClientEnv;
use crate::domain::manifest::{self, Agents, FILE_BYTES_MAX, File, Sources};
use crate::domain::plan::Plan;

/// What `agents.toml` is called where it is looked for.
pub(super) const AGENTS_FILE: &str = "agents.toml";

/// Where a plan comes from, beside the manifest itself.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct PlanArgs {
    /// Read the agents from FILE [default: agents.toml beside the manifest, in the workspace's
    /// root, or here]
    #[arg(long, value_name = "FILE")]
    pub(super) agents: Option<PathBuf>,
    /// Use DIR as the workspace's root, whatever the manifest says
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,
    /// Replace ${{K}} in the manifest by V
    #[arg(long = "var", value_name = "K=V", value_parser = parse_pair)]
    pub(super) vars: Vec<(String, String)>,
}

/// Reads and checks MANIFEST (or stdin, for `-`) with its agents. The plan's root exists and is
/// free of symbolic links.
///
/// # Errors
/// Every problem of both files at once.
pub(super) fn load(manifest: &Path, args: &PlanArgs) -> Result<Plan, Failure> {
    Ok(load_with(manifest, args, &is_set)?.0)
}

/// Likewise, with the files that it comes from.
///
/// # Errors
/// Like `load`.
pub(super) fn load_to_run(
    manifest: &Path,
    args: &PlanArgs,
) -> Result<(Plan, Vec<PathBuf>), Failure> {
    load_with(manifest, args, &is_set)
}

/// Likewise, with variables that this client lacks taken for given: to show, not to run.
///
/// # Errors
/// Like `load`.
pub(super) fn load_to_show(manifest: &Path, args: &PlanArgs) -> Result<Plan, Failure> {
    Ok(load_with(manifest, args, &|_| true)?.0)
}

fn load_with(
    manifest: &Path,
    args: &PlanArgs,
    passed: &dyn Fn(&str) -> bool,
) -> Result<(Plan, Vec<PathBuf>), Failure> {
    let here = current_folder()?;
    let (name, bytes) = read_manifest(manifest)?;
    let base = match manifest.parent() {
        Some(folder) if !is_stdin(manifest) => here.join(folder),
        _ => here.clone(),
    };
    let told_root = args.workspace.as_ref().map(|root| here.join(root));
    let own_root = OwnRoot::read(&bytes).filter(|_| told_root.is_none());
    let named_root =
        told_root.clone().or_else(|| own_root.as_ref().map(|own| base.join(&own.folder)));
    let agents_file = match &args.agents {
        Some(file) => Some(file.clone()),
        None => find_agents(&base, &here, named_root.as_deref()),
    };
    let agents_bytes = agents_file.as_deref().map(read_file).transpose()?;
    let agents_name = agents_file.as_ref().map(|file| shown(file, &here));
    let variables = variables(&args.vars)?;
    let checked = manifest::check(&Sources {
        manifest: File { name: &name, bytes: &bytes },
        agents: agents_name
            .as_deref()
            .zip(agents_bytes.as_deref())
            .map(|(name, bytes)| File { name, bytes }),
        base: &base,
        root_override: told_root.as_deref(),
        variables: &variables,
        passed,
        local_capacity: cores(),
    });
    let root = checked.as_ref().map(|plan| plan.root.clone()).ok().or(named_root);
    let mut problems = Vec::new();
    let plan = checked.map_err(|found| problems = found.into_iter().map(Problem::from).collect());
    if let (Some(own), Some(root)) = (&own_root, &root) {
        own.check(root, &name, &mut problems);
    }
    let Some(mut plan) = plan.ok().filter(|_| problems.is_empty()) else {
        let failure = failure(problems);
        return Err(match &told_root {
            Some(root) => root::told_too(failure, root),
            None => failure,
        });
    };
    plan.root = real_folder(&plan.root)?;
    let manifest = (!is_stdin(manifest)).then(|| manifest.to_owned());
    Ok((plan, manifest.into_iter().chain(agents_file).collect()))
}

/// Reads and checks `agents.toml` alone: the one that is told, or that of `root`, or of the folder
/// we are in; the built-in agent where there is none. Variables that this client lacks are taken
/// for given.
///
/// # Errors
/// Every problem of the file at once.
pub(super) fn load_agents(told: Option<&Path>, root: &Path) -> Result<Agents, Failure> {
    AgentsText::read(told, root)?.check(&|_| true)
}

/// Likewise, for a session that belongs to no task: what its `[defaults]` pass on has to be set.
/// What single agents pass on is theirs alone.
///
/// # Errors
/// Like `load_agents`.
pub(super) fn load_agents_to_run(root: &Path) -> Result<Agents, Failure> {
    let text = AgentsText::read(None, root)?;
    let agents = text.check(&|_| true)?;
    let missing: Vec<_> = agents.default_env_pass.iter().filter(|name| !is_set(name)).collect();
    if missing.is_empty() {
        return Ok(agents);
    }
    text.check(&|name| missing.iter().all(|missing| *missing != name))
}

/// A plan of one task, which comes from a command line: `text` is what a manifest would have. What is
/// wrong with it is told by the words of the check alone, since there is no such file.
///
/// # Errors
/// Every problem at once, those of `agents.toml` with their places.
pub(super) fn plan_of_task(
    text: &str,
    agents: Option<&Path>,
    root: &Path,
) -> Result<Plan, Failure> {
    const NAME: &str = "the command line";
    let agents = AgentsText::read(agents, root)?;
    let checked = manifest::check(&Sources {
        manifest: File { name: NAME, bytes: text.as_bytes() },
        agents: agents.0.as_ref().map(|(name, bytes)| File { name, bytes }),
        base: root,
        root_override: Some(root),
        variables: &BTreeMap::new(),
        passed: &is_set,
        local_capacity: cores(),
    });
    checked.map_err(|found| {
        let (told, of_agents): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|problem| problem.file == NAME);
        if !of_agents.is_empty() {
            return failure(of_agents.into_iter().map(Problem::from).collect());
        }
        let words: Vec<_> = told.iter().map(|problem| problem.message.as_str()).collect();
        let hints: Vec<_> = told.iter().filter_map(|problem| problem.hint.as_deref()).collect();
        let failure = Failure::usage(words.join("; "));
        if hints.is_empty() { failure } else { failure.hint(hints.join("; ")) }
    })
}

/// `agents.toml`, where there is one.
struct AgentsText(Option<(String, Vec<u8>)>);

impl AgentsText {
    fn read(told: Option<&Path>, root: &Path) -> Result<Self, Failure> {
        let here = current_folder()?;
        let candidates = [root.join(AGENTS_FILE), here.join(AGENTS_FILE)];
        let found = candidates.into_iter().find(|file| file.is_file());
        let file = told.map(Path::to_owned).or(found);
        let read = file.map(|file| Ok((shown(&file, &here), read_file(&file)?)));
        read.transpose().map(Self)
    }

    fn check(&self, passed: &dyn Fn(&str) -> bool) -> Result<Agents, Failure> {
        let Some((name, bytes)) = &self.0 else { return Ok(Agents::local(cores())) };
        manifest::check_agents(File { name, bytes }, passed, cores())
            .map_err(|found| failure(found.into_iter().map(Problem::from).collect()))
    }
}

/// This client's environment as far as the plan's sessions may see it.
pub(super) fn client_env(plan: &Plan) -> ClientEnv {
    filter_client_env(std::env::vars_os(), &names_to_pass(plan))
}

/// What a session has in its environment that belongs to no task; `told` is `--env`.
pub(super) fn own_env(agents: &Agents, told: BTreeMap<String, String>) -> EnvSources {
    let pass: BTreeSet<_> = agents.default_env_pass.iter().cloned().collect();
    EnvSources {
        client: filter_client_env(std::env::vars_os(), &pass),
        defaults: agents.default_env.clone(),
        pass: agents.default_env_pass.clone(),
        told,
    }
}

/// The folder we are in.
///
/// # Errors
/// When it has been removed.
pub(super) fn current_folder() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| {
        let message = format!("cannot tell the current folder: {}", reason(&error));
        Failure::usage(message).hint("it may have been removed: `cd` to another one")
    })
}

/// An existing folder, absolute and free of symbolic links.
///
/// # Errors
/// When there is no such folder.
pub(super) fn real_folder(folder: &Path) -> Result<PathBuf, Failure> {
    let real = folder.canonicalize().map_err(|error| Failure::file(folder, "use", &error))?;
    if real.is_dir() {
        Ok(real)
    } else {
        Err(Failure::usage(format!("`{}` is not a folder", folder.display())))
    }
}

/// The machine's cores, as far as this process may use them.
pub(super) fn cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    u32::try_from(cores).unwrap_or(u32::MAX)
}

/// `K=V` of `--var` and `--env`.
///
/// # Errors
/// A sentence for the usage error.
pub(super) fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("it has to have the form K=V".to_owned()),
    }
}

fn is_set(name: &str) -> bool {
    std::env::var(name).is_ok()
}

fn is_stdin(manifest: &Path) -> bool {
    manifest == Path::new("-")
}

fn read_manifest(manifest: &Path) -> Result<(String, Vec<u8>), Failure> {
    if !is_stdin(manifest) {
        return Ok((manifest.display().to_string(), read_file(manifest)?));
    }
    Ok(("<stdin>".to_owned(), read_stdin()?))
}

/// All of stdin, as far as a text for callboard may go.
///
/// # Errors
/// When it cannot be read, or goes further.
pub(super) fn read_stdin() -> Result<Vec<u8>, Failure> {
    read_bounded(io::stdin().lock(), Path::new("<stdin>"))
}

/// A file's bytes. What may have no end, or wait for somebody to write it, is not even opened.
fn read_file(file: &Path) -> Result<Vec<u8>, Failure> {
    let told = |error| Failure::file(file, "read", &error);
    let metadata = fs::metadata(file).map_err(told)?;
    if metadata.is_file() {
        return read_bounded(fs::File::open(file).map_err(told)?, file);
    }
    let what = if metadata.is_dir() { "it is a folder" } else { "it is not a regular file" };
    let failure = Failure::usage(format!("cannot read `{}`: {what}", file.display()));
    Err(if metadata.is_dir() { failure } else { failure.hint("`-` reads the manifest from stdin") })
}

fn read_bounded(source: impl Read, name: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    source
        .take(FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::file(name, "read", &error))?;
    if bytes.len() > FILE_BYTES_MAX {
        let limit = FILE_BYTES_MAX >> 20;
        let message = format!("cannot read `{}`: it is longer than {limit} MiB", name.display());
        return Err(Failure::usage(message));
    }
    Ok(bytes)
}

/// Beside the manifest, in the root, here: the first that is there.
fn find_agents(base: &Path, here: &Path, root: Option<&Path>) -> Option<PathBuf> {
    let beside = base.join(AGENTS_FILE);
    if beside.is_file() {
        return Some(beside);
    }
    let candidates = root.into_iter().chain([here]);
    candidates.map(|folder| folder.join(AGENTS_FILE)).find(|file| file.is_file())
}

/// A path as people would write it from `here`.
fn shown(file: &Path, here: &Path) -> String {
    file.strip_prefix(here).unwrap_or(file).display().to_string()
}

fn variables(pairs: &[(String, String)]) -> Result<BTreeMap<String, String>, Failure> {
    let mut variables = BTreeMap::new();
    for (name, value) in pairs {
        if variables.insert(name.clone(), value.clone()).is_some() {
            return Err(Failure::usage(format!("`--var {name}=…` is given twice")));
        }
    }
    Ok(variables)
}

fn failure(problems: Vec<Problem>) -> Failure {
    let files: BTreeSet<_> = problems.iter().map(|problem| problem.file.as_str()).collect();
    let files = files.into_iter().map(|file| format!("`{file}`")).collect::<Vec<_>>().join(" and ");
    let message = format!("{} in {files}", count(problems.len(), "problem"));
    let mut failure = Failure::new(Kind::Manifest, message);
    failure.problems = problems;
    failure
}

impl From<manifest::Problem> for Problem {
    fn from(problem: manifest::Problem) -> Self {
        let manifest::Problem { file, line, column, text, message, hint } = problem;
        Self { file, line, column, text, message, hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        folder
    }

    const TASK: &str = "[[task]]\nid = \"a\"\nneeds = [\"x\"]\nrun = \"true\"\n";
    const AGENT: &str = "[[agent]]\nname = \"w\"\ntags = [\"x\"]\ncapacity = 3\n";

    #[test]
    fn agents_are_found_beside_the_manifest_and_in_the_root() {
        let in_root = format!("[workspace]\nroot = \"sub\"\n{TASK}");
        for files in [
            [("m.toml", TASK), ("agents.toml", AGENT)],
            [("m.toml", in_root.as_str()), ("sub/agents.toml", AGENT)],
        ] {
            let folder = folder_with(&files);
            let plan = load(&folder.path().join("m.toml"), &PlanArgs::default()).unwrap();
            assert_eq!(plan.agents[0].name.as_str(), "w");
        }
    }

    #[test]
    fn the_root_that_is_told_wins() {
        let folder = folder_with(&[("m.toml", TASK), ("r/agents.toml", AGENT)]);
        let root = folder.path().join("r");
        let args = PlanArgs { workspace: Some(root.clone()), ..PlanArgs::default() };
        let plan = load(&folder.path().join("m.toml"), &args).unwrap();
        assert_eq!(plan.root, root.canonicalize().unwrap());
    }

    #[test]
    fn all_problems_of_both_files_are_told() {
        let manifest =
            "[[task]]\nid = \"a\"\nafer = [\"b\"]\nrun = \"true\"\nenv_pass = [\"CB_UNSET\"]\n";
        let agents = "[[agent]]\nnmae = \"w\"\n";
        let folder = folder_with(&[("m.toml", manifest), ("agents.toml", agents)]);
        let failure = load(&folder.path().join("m.toml"), &PlanArgs::default()).unwrap_err();
        assert_eq!(failure.kind, Kind::Manifest);
        assert_eq!(failure.exit_code(), 2);
        let lines: Vec<_> = failure.problems.iter().map(|problem| problem.line).collect();
        assert!(lines.starts_with(&[3, 5]), "{failure:?}");
        assert!(failure.problems.iter().any(|problem| problem.file.ends_with("agents.toml")));
        assert!(failure.message.contains("problems in `"), "{}", failure.message);
    }

    #[test]
    fn missing_files_and_folders_are_usage_errors() {
        let folder = folder_with(&[("m.toml", TASK), ("agents.toml", AGENT)]);
        let manifest = folder.path().join("m.toml");
        let gone = Some(folder.path().join("gone"));
        for (file, args) in [
            (folder.path().join("none.toml"), PlanArgs::default()),
            (folder.path().to_owned(), PlanArgs::default()),
            (manifest.clone(), PlanArgs { workspace: gone.clone(), ..PlanArgs::default() }),
            (manifest.clone(), PlanArgs { agents: gone, ..PlanArgs::default() }),
        ] {
            let failure = load(&file, &args).unwrap_err();
            assert_eq!(failure.exit_code(), 2, "{failure:?}");
        }
    }

    #[test]
    fn what_has_no_end_is_not_read() {
        for name in ["/dev/zero", "/dev/null"] {
            let failure = load(Path::new(name), &PlanArgs::default()).unwrap_err();
            assert_eq!(failure.exit_code(), 2);
            assert!(failure.message.ends_with("it is not a regular file"), "{}", failure.message);
        }
        let failure = read_bounded(io::repeat(b'#'), Path::new("<stdin>")).unwrap_err();
        assert_eq!(failure.message, "cannot read `<stdin>`: it is longer than 32 MiB");
        assert_eq!(read_bounded(&b"ab"[..], Path::new("x")).unwrap(), b"ab");
    }

    #[test]
    fn variables_are_filled_in_and_given_once() {
        let manifest = "[[task]]\nid = \"a\"\nrun = \"echo ${{who}}\"\n";
        let folder = folder_with(&[("m.toml", manifest)]);
        let pair = |value: &str| ("who".to_owned(), value.to_owned());
        let args = PlanArgs { vars: vec![pair("me")], ..PlanArgs::default() };
        let plan = load(&folder.path().join("m.toml"), &args).unwrap();
        assert_eq!(plan.tasks[0].run, ["echo me"]);
        let args = PlanArgs { vars: vec![pair("me"), pair("you")], ..PlanArgs::default() };
        assert_eq!(load(&folder.path().join("m.toml"), &args).unwrap_err().kind, Kind::Usage);
    }
}
