//! Bytes, encodings, syntax, positions, order.

use super::Case;

#[test]
fn a_byte_order_mark_and_crlf_move_nothing() {
    let plain = "[[task]]\nid = \"ä\"\nrun = \"\"\"\necho 1\necho 2\"\"\"\n";
    let foreign = format!("\u{feff}{}", plain.replace('\n', "\r\n"));
    assert_eq!(Case::of(&foreign).plan(), Case::of(plain).plan());
    let faulty = "idd = 1\n[[task]]\nid = \"ä\"\nrun = \"ä\"; rum = 2\nretrys = 1\n";
    let foreign = format!("\u{feff}{}", faulty.replace('\n', "\r\n"));
    let said = Case::of(faulty).said();
    assert_eq!(Case::of(&foreign).said(), said);
    assert!(said.len() >= 3, "{said:?}");
}

#[test]
fn what_is_not_utf8_is_refused_with_its_position() {
    let good_agents = &b"[[agent]]\nname = 'a'\ncapasity = 1\n"[..];
    for (bytes, line, column, text, message) in [
        (&b"a = 1\n\xc3\xa4 \xff"[..], 2, 3, "\\xff", "not UTF-8 at byte 9 of the file"),
        (b"\xef\xbb\xbf\xff", 1, 1, "\\xff", "not UTF-8 at byte 3 of the file"),
        (b"x\xe4", 1, 2, "\\xe4", "not UTF-8 at byte 1 of the file"),
        (b"\xff\xfea\0", 1, 1, "\\xff", "not UTF-8 at byte 0 of the file"),
    ] {
        let case = Case { manifest: bytes, agents: Some(good_agents), vars: &[] };
        let problems = case.check().unwrap_err();
        let [first, second] = problems.as_slice() else { panic!("{problems:?}") };
        assert_eq!((first.line, first.column), (line, column), "{bytes:?}");
        assert_eq!((first.text.as_str(), first.message.as_str()), (text, message));
        assert_eq!(second.file, "agents.toml");
        assert_eq!(second.hint.as_deref(), Some("did you mean `capacity`?"));
    }
}

#[test]
fn several_syntax_errors_and_the_rest_in_one_pass() {
    let manifest = "\
[[task]]
id = \"a\"
run = \"unfinished
retrys = 1

[[task]]
id = b
run = 'true'
after = ['nobody']
timeout = '1 h'
";
    let problems = Case::with(manifest, "[[agent]\nname = 'x'\n").check().unwrap_err();
    let lines: Vec<(&str, usize)> =
        problems.iter().map(|problem| (problem.file.as_str(), problem.line)).collect();
    // Line 9 names a task that may be there: in a file that is not TOML that proves nothing.
    let expected =
        [("job.toml", 3), ("job.toml", 4), ("job.toml", 7), ("job.toml", 10), ("agents.toml", 1)];
    assert_eq!(lines, expected, "{problems:#?}");
}

#[test]
fn problems_are_in_the_order_of_the_file_the_manifests_first() {
    let manifest = "\
[[task]]
run = 'true'
id = 'x/y'
timeout = 5
cwd = ''

[workspace]
roots = '.'
";
    let agents = "[[agent]]\nname = 'a'\ncapacity = 0\n[defaults]\nshell = 'ksh'\n";
    let said = Case::with(manifest, agents).said();
    assert_eq!(
        said,
        [
            "3:6: `id`: `x/y` has a `/` in it",
            "4:11: `timeout` has to be a duration, not a number | write it with its unit, as in \"30s\"",
            "5:7: `cwd` is empty",
            "8:1: unknown key `roots` | did you mean `root`?",
            "agents.toml:3:12: `capacity` has to lie between 1 and 4294967295",
            "agents.toml:5:9: `shell` cannot be `ksh` | did you mean `zsh`?",
        ]
    );
}

#[test]
fn columns_count_characters() {
    let said = Case::of("[[task]]\nid = 'a'\nrun = 'x'\nafter = ['ä€😀', 'b']\n").said();
    assert_eq!(said[1], "4:17: unknown task `b` in `after` of `a`");
}

#[test]
fn the_offending_text_is_short_and_harmless() {
    let long = "x".repeat(500);
    let manifest = format!("[[task]]\nid = 'a/{long}'\nrun = 'x'\nclass = \"\\u001b[2J\"\n");
    let problems = Case::of(&manifest).check().unwrap_err();
    assert_eq!(problems.len(), 2);
    assert_eq!(problems[0].text.chars().count(), 80);
    assert!(problems[0].text.starts_with("'a/xxx") && problems[0].text.ends_with('…'));
    assert!(problems.iter().all(|p| !p.message.contains('\u{1b}') && p.message.len() < 300));
    let several = "[[task]]\nid = 'a'\nrun = 'x'\ncwd = '''\n\n'''\n";
    assert_eq!(Case::of(several).check().unwrap_err()[0].text, "''' …");
}

#[test]
fn an_empty_manifest_is_a_problem() {
    for empty in ["", "\n", "[defaults]\nretries = 1\n", "task = []\n"] {
        let said = Case::of(empty).said();
        assert_eq!(said.len(), 1, "{empty:?}: {said:?}");
        assert!(said[0].contains("the manifest has no tasks"), "{said:?}");
    }
}

#[test]
fn a_thousand_problems_are_enough() {
    let manifest: String = (0..3_000).map(|n| format!("[[task]]\nid = 'a'\nrun = {n}\n")).collect();
    let problems = Case::of(&manifest).check().unwrap_err();
    assert_eq!(problems.len(), 1_001);
    assert_eq!(problems[1_000].message, "4999 more problems from here on");
}
