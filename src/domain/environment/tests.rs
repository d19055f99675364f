//! What a session sees, and what it does not.

use std::os::unix::ffi::OsStringExt;

use super::*;
use crate::domain::ids::AgentName;
use crate::domain::plan::AdapterKind;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn agent(env: &[(&str, &str)], env_pass: &[&str]) -> Agent {
    Agent {
        name: AgentName::from("a"),
        tags: Vec::new(),
        adapter: AdapterKind::Shell,
        capacity: 1,
        env: map(env),
        env_pass: env_pass.iter().map(|name| (*name).to_owned()).collect(),
        policy: Default::default(),
    }
}

fn task(env: &[(&str, &str)], env_pass: &[&str], ports: &[(&str, u16)]) -> TaskSpec {
    TaskSpec {
        env: map(env),
        env_pass: env_pass.iter().map(|name| (*name).to_owned()).collect(),
        ports: ports.iter().map(|(name, port)| ((*name).to_owned(), *port)).collect(),
        ..TaskSpec::new("t", &["true"])
    }
}

fn facts() -> SessionFacts {
    SessionFacts {
        session: "s1".to_owned(),
        tmp: "/run/tmp".to_owned(),
        socket: Some("/run/sock".to_owned()),
        board: None,
        task: Some("r/t".to_owned()),
        attempt: Some(2),
        inputs: None,
    }
}

/// Every layer sets what the next ones set too, so each variable shows who comes last.
#[test]
fn later_layers_win() {
    const STEPS: [&str; 9] = ["HOME", "TERM", "L1", "L2", "L3", "L4", "L5", "PORT_WEB_1", "TMPDIR"];
    let from = |first: usize| -> Vec<(&str, &str)> {
        STEPS[first..].iter().map(|name| (*name, "later")).collect()
    };
    let mut client = ClientEnv { allowed: map(&from(0)), passed: map(&from(4)) };
    client.allowed.insert("HOME".to_owned(), "/home/x".to_owned());
    let default_env = map(&from(2));
    let agent = agent(&from(3), &STEPS[4..]);
    let task = task(&from(5), &[], &[("web-1", 8080)]);
    let command_line = map(&from(6));
    let session = facts();
    let variables = snapshot(&Layers {
        client: &client,
        default_env: &default_env,
        default_env_pass: &[],
        agent: Some(&agent),
        task: Some(&task),
        command_line: &command_line,
        session: &session,
    });
    let origin = |name: &str| {
        variables.iter().find(|variable| variable.name == name).map(|variable| variable.origin)
    };
    let expected = [
        Origin::AllowList,
        Origin::BuiltIn,
        Origin::AgentDefaults,
        Origin::Agent,
        Origin::EnvPass,
        Origin::Manifest,
        Origin::CommandLine,
        Origin::Port,
        Origin::Callboard,
    ];
    for (name, expected) in STEPS.into_iter().zip(expected) {
        assert_eq!(origin(name), Some(expected), "{name}");
    }
    assert!(variables.is_sorted_by_key(|variable| &variable.name));
}

fn plain<'a>(
    client: &'a ClientEnv,
    env: &'a BTreeMap<String, String>,
    session: &'a SessionFacts,
) -> Layers<'a> {
    Layers {
        client,
        default_env: env,
        default_env_pass: &[],
        agent: None,
        task: None,
        command_line: env,
        session,
    }
}

/// Nothing of the caller's environment but the allow-list, whatever a client hands over.
#[test]
fn nothing_leaks() {
    let caller = [
        ("PORT", "4000"),
        ("SECRET_X", "1"),
        ("ANTHROPIC_BASE_URL", "http://leak.invalid"),
        ("LC_TIME", "de_DE.UTF-8"),
        ("LANG", "C.UTF-8"),
        ("PATH", "/bin"),
        ("HOME", "/home/x"),
        ("TERM", "dumb"),
        ("TMPDIR", "/leak"),
        ("CALLBOARD_SESSION", "outer"),
        ("CALLBOARD_BOARD", "outer"),
        ("BASH_ENV", "/leak"),
    ];
    let os = caller.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let client = filter_client_env(os, &BTreeSet::new());
    assert_eq!(client.allowed.keys().collect::<Vec<_>>(), ["HOME", "LANG", "LC_TIME", "PATH"]);
    assert!(client.passed.is_empty());
    let (env, session) = (BTreeMap::new(), facts());
    let expected = [
        ("CALLBOARD_ATTEMPT", "2"),
        ("CALLBOARD_SESSION", "s1"),
        ("CALLBOARD_SOCKET", "/run/sock"),
        ("CALLBOARD_TASK", "r/t"),
        ("GIT_EDITOR", "true"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_PAGER", "cat"),
        ("HOME", "/home/x"),
        ("LANG", "C.UTF-8"),
        ("LC_TIME", "de_DE.UTF-8"),
        ("PAGER", "cat"),
        ("PATH", "/bin"),
        ("TERM", "xterm-256color"),
        ("TMPDIR", "/run/tmp"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(pairs(snapshot(&plain(&client, &env, &session))), expected);
    let everything = ClientEnv { allowed: map(&caller), passed: map(&caller) };
    assert_eq!(pairs(snapshot(&plain(&everything, &env, &session))), expected);
}

#[test]
fn what_the_client_lacks_is_stood_in_for() {
    let (env, session) = (BTreeMap::new(), facts());
    for client in [
        ClientEnv::default(),
        ClientEnv { allowed: map(&[("HOME", ""), ("PATH", "")]), passed: BTreeMap::new() },
    ] {
        let variables = pairs(snapshot(&plain(&client, &env, &session)));
        assert!(variables.contains(&("PATH".to_owned(), FALLBACK_PATH.to_owned())));
        assert!(variables.contains(&("HOME".to_owned(), "/run/tmp".to_owned())));
    }
}

#[test]
fn values_that_are_not_utf8_stay_behind() {
    let bad = OsString::from_vec(vec![b'/', 0xff]);
    let variables = [("PATH", bad.clone()), ("MY_KEY", bad), ("HOME", OsString::from("/h"))]
        .map(|(name, value)| (OsString::from(name), value));
    let pass = BTreeSet::from(["MY_KEY".to_owned(), "HOME".to_owned()]);
    let client = filter_client_env(variables, &pass);
    assert_eq!(client.allowed, map(&[("HOME", "/h")]));
    assert_eq!(client.passed, map(&[("HOME", "/h")]));
}

#[test]
fn names_that_the_client_lacks() {
    let client = ClientEnv { allowed: map(&[("HOME", "/h")]), passed: map(&[("ONE", "1")]) };
    let (env, session) = (BTreeMap::new(), facts());
    let agent = agent(&[], &["TWO", "ONE"]);
    let task = task(&[], &["THREE"], &[]);
    let layers =
        Layers { agent: Some(&agent), task: Some(&task), ..plain(&client, &env, &session) };
    assert_eq!(missing(&layers), ["THREE", "TWO"]);
    assert!(!snapshot(&layers).iter().any(|variable| variable.name == "TWO"));
}

#[test]
fn secrets_by_origin_name_and_value() {
    for (name, value, origin, secret) in [
        ("ANYTHING", "x", Origin::EnvPass, true),
        ("CI", "true", Origin::EnvPass, false),
        ("LANG", "C", Origin::EnvPass, false),
        ("HTTPS_PROXY", "http://u:p@proxy", Origin::EnvPass, true),
        ("XDG_X_URL", "http://u:p@h/", Origin::EnvPass, true),
        ("API_KEY", "x", Origin::Manifest, true),
        ("NpmToken", "x", Origin::Agent, true),
        ("GITHUB_PAT", "x", Origin::CommandLine, true),
        ("DB_PASSWORD", "x", Origin::AgentDefaults, true),
        ("SSH_AUTH_SOCK", "x", Origin::Manifest, true),
        ("DATABASE_URL", "postgres://u:p@h/db", Origin::Manifest, true),
        ("DATABASE_URL", "postgres://u@h:5432/db", Origin::Manifest, false),
        ("MONKEY", "x", Origin::Manifest, false),
        ("GIT_AUTHOR_NAME", "x", Origin::Manifest, false),
        ("PATH", "/bin", Origin::AllowList, false),
        ("CALLBOARD_SOCKET", "/x", Origin::Callboard, false),
    ] {
        assert_eq!(is_secret(name, value, origin), secret, "{name}={value} {origin:?}");
    }
}

#[test]
fn ports_become_variables() {
    for (name, variable) in [("web", "PORT_WEB"), ("web-1", "PORT_WEB_1"), ("ä", "PORT__")] {
        assert_eq!(port_variable(name), variable);
    }
}
