//! What lies between tasks, and between the two files.

use super::Case;

fn tasks(lines: &[(&str, &str)]) -> String {
    lines.iter().map(|(id, rest)| format!("[[task]]\nid = '{id}'\nrun = 'x'\n{rest}\n")).collect()
}

/// Tasks, and what is said of them.
type Said = (&'static [(&'static str, &'static str)], &'static [&'static str]);

#[test]
fn ids_and_dependencies() {
    let table: &[Said] = &[
        (&[("a", ""), ("b", "after = ['a', 'a', { task = 'a', when = 'done' }]")], &[]),
        (
            &[("build", ""), ("b", "after = ['biuld']")],
            &["8:10: unknown task `biuld` in `after` of `b` | did you mean `build`?"],
        ),
        (
            &[("build", ""), ("b", "after = [{ task = 'biuld', when = 'done' }]")],
            &["8:19: unknown task `biuld` in `after` of `b` | did you mean `build`?"],
        ),
        (&[("a", "after = ['a']")], &["4:10: task `a` waits for itself | take it out"]),
        (
            &[("a", ""), ("a", ""), ("a", "")],
            &[
                "6:6: task `a` is there already, on line 2 | give it an id of its own",
                "10:6: task `a` is there already, on line 2 | give it an id of its own",
            ],
        ),
        (
            &[("a", "after = ['b']"), ("b", "after = ['c']"), ("c", "after = ['a']")],
            &[
                "4:10: dependency cycle: a -> b -> c -> a | each waits for the next: take one `after` out",
            ],
        ),
        (
            &[("x", "after = ['b']"), ("b", "after = [{ task = 'x', when = 'failure' }]")],
            &[
                "4:10: dependency cycle: x -> b -> x | each waits for the next: take one `after` out",
            ],
        ),
        (
            &[("a", ""), ("b", "after = ['a', { task = 'a', when = 'failure' }]")],
            &[
                "8:24: `a` cannot both succeed and fail for this task | one of the two, or when = \"done\"",
            ],
        ),
        (
            &[
                (
                    "a",
                    "after = ['b', 1, {}, { task = 'b', whem = 'done' }, { task = 'b', when = 'never' }]",
                ),
                ("b", ""),
            ],
            &[
                "4:15: `after` takes task ids or `{task, when}` tables, not a number",
                "4:18: the entry of `after` has no `task` | write it as in { task = \"build\", when = \"failure\" }",
                "4:36: unknown key `whem` | did you mean `when`?",
                "4:74: `when` cannot be `never` | write `success`, `done` or `failure`",
            ],
        ),
        (
            &[("a", "after = 'b'"), ("b", "")],
            &[
                "4:9: `after` has to be a list of task ids or `{task, when}` tables, not a string | write it as a list, as in [\"build\"]",
            ],
        ),
    ];
    for (lines, expected) in table {
        assert_eq!(Case::of(&tasks(lines)).said(), *expected, "{lines:?}");
    }
}

#[test]
fn a_cycle_of_500_is_told_whole() {
    let manifest: String = (0..500)
        .map(|n| format!("[[task]]\nid = 't{n}'\nrun = 'x'\nafter = ['t{}']\n", (n + 1) % 500))
        .collect();
    let problems = Case::of(&manifest).check().unwrap_err();
    assert_eq!(problems.len(), 1);
    let path: Vec<&str> = problems[0].message.split(" -> ").collect();
    assert_eq!(path.len(), 501);
    assert!(path[0].ends_with("t0") && path[500] == "t0" && path[499] == "t499");
}

#[test]
fn tags() {
    let agents = "\
[[agent]]
name = 'front'
tags = ['node', 'browser']
[[agent]]
name = 'back'
tags = ['rust', 'sql']
[[agent]]
name = 'all'
tags = ['rust', 'node', 'os/linux']
";
    let table = [
        ("needs = ['rust', 'sql']", None),
        ("needs = []", None),
        ("needs = ['os/linux', 'node']", None),
        ("needs = ['a\tb']", Some("4:10: `needs`: `a\\tb` has a control character in it")),
        ("needs = ['rsut']", Some("4:10: no agent carries the tag `rsut` | did you mean `rust`?")),
        (
            "needs = ['gpu']",
            Some(
                "4:10: no agent carries the tag `gpu` | carried are `browser`, `node`, `os/linux`, `rust` and `sql`",
            ),
        ),
        (
            "needs = ['sql', 'gpu']",
            Some("4:17: no agent carries the tag `gpu` | nearest: `back`, which lacks `gpu`"),
        ),
        (
            "needs = ['sql', 'rust', 'browser']",
            Some(
                "4:10: no agent carries all of `sql`, `rust` and `browser` | nearest: `back`, which lacks `browser`",
            ),
        ),
        (
            "needs = ['browser', 'sql']",
            Some(
                "4:10: no agent carries all of `browser` and `sql` | nearest: `front`, which lacks `sql`; `back`, which lacks `browser`",
            ),
        ),
    ];
    for (needs, expected) in table {
        let manifest = tasks(&[("a", needs)]);
        assert_eq!(Case::with(&manifest, agents).said(), Vec::from_iter(expected), "{needs}");
    }
    let manifest = tasks(&[("a", "needs = ['gpu']")]);
    let local = "4:10: no agent carries the tag `gpu` | the only agent is `local`, which carries no \
                 tags: name agents in an agents.toml";
    assert_eq!(Case::of(&manifest).said(), [local]);
    // Who carries what is unknown when the file is no TOML.
    assert_eq!(Case::with(&manifest, "[[agent]]\nname = \n").said().len(), 1);
}

#[test]
fn what_is_wrong_with_the_defaults_is_said_once() {
    let manifest = format!(
        "[defaults]\nneeds = ['gpu']\nafter = ['nobody']\ntimeout = '5m'\nhard_timeout = '1m'\nretries = -1\n{}",
        tasks(&[("a", ""), ("b", ""), ("c", "after = []\nneeds = []\nhard_timeout = '2m'")])
    );
    let lines: Vec<usize> =
        Case::of(&manifest).check().unwrap_err().iter().map(|problem| problem.line).collect();
    // The unknown task is told of each task that has it, since each has to be mended.
    assert_eq!(lines, [2, 3, 3, 5, 6, 20]);
}
