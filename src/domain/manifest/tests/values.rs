//! One value at a time.

use super::super::keys;
use super::{Case, said_of_task};

/// A task's body, which begins on line 3, and what is said of it.
type Said = (&'static str, &'static [&'static str]);

const VALUES: &[Said] = &[
    ("run = 'true'", &[]),
    ("run = ''", &["3:7: `run` is empty"]),
    ("run = []", &["3:7: `run` is empty"]),
    ("run = ['true', '\\t']", &[]),
    ("run = ['true', ' ']", &["3:16: `run` is empty"]),
    ("run = ['true', 1]", &["3:16: `run` has to be a string, not a number | put it in quotes"]),
    ("run = 1", &["3:7: `run` has to be a string or a list of strings, not a number"]),
    ("run = \"ab\\u0000c\"", &["3:7: `run` has a NUL at byte 2"]),
    ("cwd = '.'", &["1:1: the task has nothing to `run` | add run = \"…\""]),
    (
        "run = 'x'\nprompt = 'y'",
        &[
            "4:1: `prompt` is not supported yet",
            "4:1: a task has one of `run` and `prompt`, not both",
        ],
    ),
    ("prompt = 'y'", &["3:1: `prompt` is not supported yet"]),
    ("shard = { runner = 'pytest', count = 3 }", &["3:1: `shard` is not supported yet"]),
    (
        "shard = { runer = 'pytest' }",
        &[
            "3:1: `shard` is not supported yet",
            "3:11: unknown key `runer` | did you mean `runner`?",
        ],
    ),
    (
        "run = 'x'\ntimeout = '5 m'",
        &[
            "4:11: `timeout`: `5 m` is not a duration: write a whole number and ms, s, m or h, as in `30s`",
        ],
    ),
    ("run = 'x'\ntimeout = '0s'", &["4:11: `timeout` has to be more than 0"]),
    (
        "run = 'x'\ninput_timeout = '99999999999999999999h'",
        &["4:17: `input_timeout`: `99999999999999999999h` is too long a duration"],
    ),
    (
        "run = 'x'\ntimeout = '2m'\nhard_timeout = '119s'",
        &["5:16: `hard_timeout` is less than `timeout`"],
    ),
    ("run = 'x'\nlimits = { output = '10MiB' }", &[]),
    (
        "run = 'x'\nlimits = { output = 10 }",
        &[
            "4:21: `output` has to be a size, not a number | write it with its unit, as in \"10MiB\"",
        ],
    ),
    ("run = 'x'\nlimits = { output = '0B' }", &["4:21: `limits.output` has to be more than 0"]),
    (
        "run = 'x'\nlimits = { output = '1M' }",
        &[
            "4:21: `limits.output`: `1M` is not a size: write a whole number and B, kB, MB, GB, KiB, MiB or GiB, as in `10MiB`",
        ],
    ),
    ("run = 'x'\nlimits = { memory = '256MiB', processes = 64, cpu = '90s' }", &[]),
    (
        "run = 'x'\nlimits = { memory = '1MiB', processes = 0, cpu = 90 }",
        &[
            "4:21: `limits.memory` has to be 16MiB or more | the shell itself needs some",
            "4:41: `limits.processes` has to lie between 1 and 4294967295",
            "4:50: `cpu` has to be a duration, not a number | write it with its unit, as in \"30s\"",
        ],
    ),
    (
        "run = 'x'\nlimits = { memory = '1GiB', outptu = '1GiB' }",
        &["4:29: unknown key `outptu` | did you mean `output`?"],
    ),
    (
        "run = 'x'\nlimits = '10MiB'",
        &[
            "4:10: `limits` has to be a table of limits, not a string | write it as in { memory = \"1GiB\" }",
        ],
    ),
    ("run = 'x'\nretries = -1", &["4:11: `retries` has to lie between 0 and 4294967295"]),
    (
        "run = 'x'\nretries = 99999999999999999999999",
        &["4:11: `retries` has to lie between 0 and 4294967295"],
    ),
    ("run = 'x'\nretries = 0x10", &[]),
    ("run = 'x'\nretries = 1.5", &["4:11: `retries` has to be a whole number, not a fraction"]),
    ("run = 'x'\npriority = 'high'", &["4:12: `priority` has to be a whole number, not a string"]),
    ("run = 'x'\nclass = 'biuld'", &["4:9: `class` cannot be `biuld` | did you mean `build`?"]),
    (
        "run = 'x'\nclass = 'slow'",
        &["4:9: `class` cannot be `slow` | write `quick`, `build` or `test`"],
    ),
    (
        "run = 'x'\nports = { web = 0 }",
        &["4:17: `ports.web = 0` (any free port) is not supported yet | give it a number"],
    ),
    (
        "run = 'x'\nports = { web = 65536, db = -1 }",
        &[
            "4:17: `ports.web` has to lie between 0 and 65535",
            "4:29: `ports.db` has to lie between 0 and 65535",
        ],
    ),
    (
        "run = 'x'\nports = { web-1 = 1, web_1 = 2 }",
        &["4:22: `ports`: `web_1` and `web-1` would both be `PORT_WEB_1`"],
    ),
    (
        "run = 'x'\nports = { \"a b\" = 1 }",
        &["4:11: `ports`: `a b` is not a name for a port | use letters, digits, `-` and `_`"],
    ),
    (
        "run = 'x'\nenv = { A = 1, \"b c\" = 'x', CALLBOARD_TASK = 'x', TMPDIR = '/x' }",
        &[
            "4:13: `env.A` has to be a string, not a number | put it in quotes",
            "4:16: `env`: `b c` is not a name: letters, digits and `_`, not beginning with a digit",
            "4:29: `env`: `CALLBOARD_TASK` is one of callboard's own",
            "4:51: `env`: `TMPDIR` is each session's own",
        ],
    ),
    ("run = 'x'\nenv = { A = \"x\\u0000\" }", &["4:13: `env.A` has a NUL at byte 1"]),
    (
        "run = 'x'\nenv_pass = ['MY_KEY', 'KEY', 'CALLBOARD_BOARD']",
        &[
            "4:23: `KEY` is not set in the environment | export KEY=… first, or take it out of `env_pass`",
            "4:30: `env_pass`: `CALLBOARD_BOARD` is one of callboard's own",
        ],
    ),
    (
        "run = 'x'\nartifacts = ['a[', '/etc/*', '../x', 'ok/**']",
        &[
            "4:14: `artifacts`: bad glob `a[`: unclosed character class; missing ']'",
            "4:20: `artifacts`: bad glob `/etc/*`: has to be relative to the root",
            "4:30: `artifacts`: bad glob `../x`: leads out of the root",
        ],
    ),
    (
        "run = 'x'\nwrites = ['a[']",
        &["4:11: `writes`: bad glob `a[`: unclosed character class; missing ']'"],
    ),
    ("run = 'x'\nshell = 'zhs'", &["4:9: `shell` cannot be `zhs` | did you mean `zsh`?"]),
    (
        "run = 'x'\nshell_profile = 'yes'",
        &["4:17: `shell_profile` has to be `true` or `false`, not a string"],
    ),
    (
        "run = 'x'\nmerge = 'keep'",
        &["4:9: the task has no worktree to `merge` | add isolation = \"worktree\""],
    ),
    (
        "run = 'x'\nisolation = 'worktree'\nmerge = 'rebase'",
        &["5:9: `merge` cannot be `rebase` | write `auto` or `keep`"],
    ),
    (
        "run = 'x'\nisolation = 'worktree'\nservice = { ready = 'log:up' }",
        &[
            "5:21: a service in a worktree ends with its run: nothing is left then to merge it for | \
           write merge = \"keep\"",
        ],
    ),
    (
        "run = 'x'\nisolation = 'sharde'",
        &["4:13: `isolation` cannot be `sharde` | did you mean `shared`?"],
    ),
    ("run = 'x'\ndepend_on = ['a']", &["4:1: unknown key `depend_on` | did you mean `after`?"]),
    ("run = 'x'\nroot = '.'", &["4:1: unknown key `root` | `root` belongs in [workspace]"]),
    ("run = 'x'\nzzzz = 1", &["4:1: unknown key `zzzz`"]),
    (
        "run = 'x'\nneeds = 'rust'",
        &[
            "4:9: `needs` has to be a list of strings, not a string | write it as a list, as in [\"one\", \"two\"]",
        ],
    ),
];

#[test]
fn values_of_a_task() {
    for (body, expected) in VALUES {
        assert_eq!(said_of_task(body), *expected, "{body}");
    }
}

const RULES: &[Said] = &[
    ("on_input = 'escalate'", &[]),
    ("on_input = []", &[]),
    ("on_input = 'fial'", &["4:12: `on_input` cannot be `fial` | did you mean `fail`?"]),
    (
        "on_input = [{ match = '(', send = '' }]",
        &["4:23: `on_input`: bad pattern `(`: unclosed group"],
    ),
    ("on_input = [{ match = 'x' }]", &["4:13: the rule has no `send`"]),
    (
        "on_input = [{ match = 'x', sent = 'y' }]",
        &["4:13: the rule has no `send`", "4:28: unknown key `sent` | did you mean `send`?"],
    ),
    (
        "on_input = ['fail', { match = 'x', send = 'y' }]",
        &["4:13: `on_input`: rules after this are never reached | put it last"],
    ),
    ("on_input = [1]", &["4:13: `on_input` has to be a table, not a number"]),
    ("stop_on = ['x']", &["4:12: `stop_on` has to be a table, not a string"]),
    (
        "stop_on = [{ match = '[z-a]' }]",
        &[
            "4:22: `stop_on`: bad pattern `[z-a]`: invalid character class range, the start must be <= the end",
        ],
    ),
    (
        "service = {}",
        &[
            "4:11: the service has no `ready` | say what shows that it is ready, as in ready = \"port:web\"",
        ],
    ),
    (
        "service = { ready = 'port:web' }",
        &["4:21: `ready`: no port `web` in `ports` | add ports = { web = 8080 }"],
    ),
    (
        "service = { ready = 'port:wbe' }\nports = { web = 1, db = 2 }",
        &["4:21: `ready`: no port `wbe` in `ports` | did you mean `web`?"],
    ),
    (
        "service = { ready = 'port:api' }\nports = { web = 1, db = 2 }",
        &["4:21: `ready`: no port `api` in `ports` | `ports` has `db` and `web`"],
    ),
    (
        "service = { ready = 'log:x' }\nverify = 'true'",
        &[
            "4:21: a service has no `verify`: its session is busy with it | make it a task of its own that comes `after` this one",
        ],
    ),
    (
        "service = { ready = 'log:x' }\nhard_timeout = '5s'",
        &[
            "5:16: a service has no `hard_timeout`: it runs until it is ended | `timeout` is the time it has to become ready",
        ],
    ),
    ("service = { ready = 'log:(' }", &["4:21: `ready`: bad pattern `(`: unclosed group"]),
    ("service = { ready = 'log:' }", &["4:21: `ready`: `log:` needs a pattern"]),
    (
        "service = { ready = 'http:https://x' }",
        &["4:21: `ready`: `https://x` is https, which is not supported yet"],
    ),
    (
        "service = { ready = 'http:x' }",
        &["4:21: `ready`: `x` is not a URL: it has to begin with http://"],
    ),
    ("service = { ready = 'http:http://:80/' }", &["4:21: `ready`: `http://:80/` has no host"]),
    ("service = { ready = 'http://h:99999' }", &["4:21: `ready`: `http://h:99999` has a bad port"]),
    (
        "service = { ready = 'soon' }",
        &["4:21: `ready` cannot be `soon` | write \"port:NAME\", \"http:URL\" or \"log:PATTERN\""],
    ),
    (
        "service = { ready = 'log:x', keep = 'workspace' }",
        &["4:37: `keep = \"workspace\"` is not supported yet | leave it out or write \"run\""],
    ),
];

#[test]
fn rules_and_services() {
    for (body, expected) in RULES {
        assert_eq!(said_of_task(&format!("run = 'x'\n{body}")), *expected, "{body}");
    }
}

#[test]
fn names() {
    let long = "x".repeat(129);
    for (id, fault) in [
        ("", "`id` is empty"),
        ("a/b", "`id`: `a/b` has a `/` in it"),
        ("a\\nb", "`id`: `a\\nb` has a control character in it"),
        (" a", "`id`: ` a` begins or ends with a space"),
        (long.as_str(), "is longer than 128 bytes"),
    ] {
        let said = Case::of(&format!("[[task]]\nid = \"{id}\"\nrun = 'x'\n")).said();
        assert_eq!(said.len(), 1, "{id}: {said:?}");
        assert!(said[0].starts_with("2:6: ") && said[0].ends_with(fault), "{said:?}");
    }
    let said = Case::of(&format!("[[task]]\nid = '{}'\nrun = 'x'\n", "ä".repeat(64))).said();
    assert!(said.is_empty(), "{said:?}");
    let said = Case::of("[[task]]\nrun = 'x'\n").said();
    assert_eq!(said, ["1:1: the task has no `id` | add id = \"…\""]);
}

/// No key of the tables is unknown to its reader, and none is ignored: what is not supported is
/// said to be.
#[test]
fn every_key_is_accepted_or_refused() {
    use keys::Support;
    for key in keys::TASK {
        let value = example(key);
        let body = match key.name {
            "id" => "run = 'x'".to_owned(),
            "run" | "prompt" | "shard" => format!("{} = {value}", key.name),
            name => format!("run = 'x'\n{name} = {value}"),
        };
        let said = said_of_task(&body);
        match key.support {
            Support::Full | Support::Only(_) => assert!(said.is_empty(), "{body}: {said:?}"),
            Support::None => {
                let refusal = format!("`{}` is not supported yet", key.name);
                assert!(said.len() == 1 && said[0].ends_with(&refusal), "{body}: {said:?}");
            }
        }
    }
}

fn example(key: &keys::Key) -> String {
    use super::super::shape::Shape;
    match (key.shape, key.support) {
        (Shape::Flag, _) => "false".to_owned(),
        (_, keys::Support::Only(value)) => format!("'{value}'"),
        (Shape::Word(words), _) => format!("'{}'", words[0]),
        (Shape::Name | Shape::Text | Shape::Script | Shape::Any, _) => "'x'".to_owned(),
        (Shape::Duration, _) => "'5s'".to_owned(),
        (Shape::Size, _) => "'5MiB'".to_owned(),
        (Shape::Number(..), _) => "1".to_owned(),
        (Shape::Globs | Shape::Texts, _) => "['x']".to_owned(),
        (Shape::Service, _) => "{ ready = 'log:x' }".to_owned(),
        (
            Shape::Tags
            | Shape::Variables
            | Shape::Dependencies
            | Shape::OnInput
            | Shape::StopRules
            | Shape::Tables,
            _,
        ) => "[]".to_owned(),
        (
            Shape::Env
            | Shape::Ports
            | Shape::Shard
            | Shape::Permissions
            | Shape::Limits
            | Shape::Published
            | Shape::Table,
            _,
        ) => "{}".to_owned(),
    }
}

#[test]
fn tables_and_agents() {
    let task = "[[task]]\nid = 'a'\nrun = 'x'\n";
    let table: &[(&str, &str, &[&str])] = &[
        (
            "[workspace]\nid = 'a/b'\nbudget = 1\ncaches = ['npm']\n",
            "",
            &[
                "2:6: `id`: `a/b` has a `/` in it",
                "3:1: `budget` is not supported yet",
                "4:1: `caches` is not supported yet",
            ],
        ),
        ("[defaults]\nid = 'x'\n", "", &["2:1: `id` belongs in each [[task]], not in [defaults]"]),
        ("[[tasks]]\nid = 'b'\n", "", &["1:3: unknown key `tasks` | did you mean `task`?"]),
        (
            "",
            "[[agent]]\nname = 'a'\n[[agent]]\nname = 'a'\n[[agent]]\n",
            &[
                "agents.toml:4:8: agent `a` is there already, on line 2",
                "agents.toml:5:1: the agent has no `name` | add name = \"…\"",
            ],
        ),
        (
            "",
            "[policy]\nalow = ['x']\n",
            &["agents.toml:2:1: unknown key `alow` | did you mean `allow`?"],
        ),
        (
            "",
            "[[agent]]\nname = 'a'\nadapter = 'cli'\ncommand = ['claude']\n",
            &[
                "agents.toml:3:11: `adapter = \"cli\"` is not supported yet | leave it out or write \"shell\"",
                "agents.toml:4:1: `command` is not supported yet",
            ],
        ),
        (
            "",
            "[defaults]\nmax_sessions = 0\nsession_ttl = '3'\nretention = '7d'\n",
            &[
                "agents.toml:2:16: `max_sessions` has to lie between 1 and 4294967295",
                "agents.toml:3:15: `session_ttl`: `3` is not a duration: write a whole number and ms, s, m or h, as in `30s`",
                "agents.toml:4:13: `retention`: `7d` is not a duration: write a whole number and ms, s, m or h, as in `30s`",
            ],
        ),
        (
            "",
            "agent = { name = 'a' }\n",
            &[
                "agents.toml:1:9: `agent` has to be a list of tables, not a table | write it as [[agent]]",
            ],
        ),
    ];
    for (manifest, agents, expected) in table {
        assert_eq!(Case::with(&format!("{manifest}{task}"), agents).said(), *expected);
    }
    assert_eq!(
        Case::of("[task]\nid = 'a'\n").said(),
        ["1:1: `task` has to be a list of tables, not a table | write it as [[task]]"]
    );
}

#[test]
fn variables() {
    let manifest = "[[task]]\nid = 'a'\nrun = 'echo ${{ GREETNG }} ${{OPEN'\ntimeout = '${{T}}'\n";
    let case = Case { vars: &[("GREETING", "hi"), ("T", "5")], ..Case::of(manifest) };
    assert_eq!(
        case.said(),
        [
            "1:1: the variable `GREETING` (--var) is not used anywhere | did you mean `GREETNG`, which the manifest uses?",
            "3:13: unknown variable `GREETNG` | did you mean `GREETING`?",
            "3:28: `${{` has no `}}` after it | write ${{NAME}}",
            "4:11: `timeout`: `5` is not a duration: write a whole number and ms, s, m or h, as in `30s`",
        ]
    );
    let case = Case::of("[[task]]\nid = 'a'\nrun = 'x'\nclass = '${{C}}'\n");
    assert_eq!(case.said(), ["4:10: unknown variable `C` | give it with --var C=…"]);
}
