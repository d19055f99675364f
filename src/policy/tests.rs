//! Scripts and what the rules make of them.

use std::time::Instant;

use proptest::prelude::*;

use Verdict::{Ask, Deny};

use super::{is_quickly_read, judge};
use crate::domain::permission::{Permissions, Rule, Verdict};

fn permissions(allow: &[&str], ask: &[&str], deny: &[&str]) -> Permissions {
    let rules = |texts: &[&str]| texts.iter().map(|text| Rule::parse(text).unwrap()).collect();
    Permissions { allow: rules(allow), ask: rules(ask), deny: rules(deny) }
}

fn verdict(permissions: &Permissions, script: &str) -> Verdict {
    judge(&[permissions], script).verdict
}

/// What becomes of scripts where `touch` is denied.
const WITHOUT_TOUCH: &[(&str, Verdict)] = &[
    ("touch /tmp/p0", Deny),
    ("sh -c 'touch /tmp/p1'", Deny),
    ("echo hi\n touch /tmp/p2", Deny),
    ("env touch /tmp/p3", Deny),
    ("echo /tmp/p4 | xargs touch", Deny),
    ("\"to\"uch /tmp/p5", Deny),
    ("/usr/bin/touch /tmp/p6", Deny),
    ("cat <(touch /tmp/p7)", Deny),
    ("$(echo touch) /tmp/p8", Ask),
    ("t${x}ouch /tmp/p9", Ask),
    ("timeout 1 touch /tmp/pa", Deny),
    ("true && touch a", Deny),
    ("true || touch a", Deny),
    ("true; touch a", Deny),
    ("true & touch a", Deny),
    ("true | touch a", Deny),
    ("(touch a)", Deny),
    ("( (touch a) )", Deny),
    ("((touch a) )", Deny),
    ("ä; ( (touch a))", Deny),
    ("( ( echo a ) )", Ask),
    ("((touch a); true)", Deny),
    ("( ( ( touch a ) ) )", Deny),
    ("{ touch a; }", Deny),
    ("! touch a", Deny),
    ("time touch a", Deny),
    ("if true; then touch a; fi", Deny),
    ("if touch a; then :; elif :; then :; else :; fi", Deny),
    ("for x in 1 2; do touch $x; done", Deny),
    ("for x in $(touch a); do :; done", Deny),
    ("while touch a; do :; done", Deny),
    ("until false; do touch a; done", Deny),
    ("case x in $(touch a)) :;; esac", Deny),
    ("case x in x) touch a;; esac", Deny),
    ("f() { touch a; }; f", Deny),
    ("function f { touch a; }", Deny),
    ("coproc touch a", Deny),
    ("[[ -n $(touch a) ]]", Deny),
    ("(( $(touch a) ))", Deny),
    ("for ((i=0; i<$(touch a); i++)); do :; done", Deny),
    ("x=$(touch a)", Deny),
    ("x=(1 $(touch a))", Deny),
    ("echo \"$(touch a)\"", Deny),
    ("echo `touch a`", Deny),
    ("echo ${x:-$(touch a)}", Deny),
    ("echo $((1+$(touch a)))", Deny),
    ("echo <<EOF\n$(touch a)\nEOF", Deny),
    ("cat > $(touch a)", Deny),
    ("cat < <(touch a)", Deny),
    ("cat <<< $(touch a)", Deny),
    ("echo > >(touch a)", Deny),
    ("X=1 touch a", Deny),
    ("X=1 env -i Y=2 -u Z touch a", Deny),
    ("sudo -u nobody touch a", Deny),
    ("nohup nice -n 5 setsid touch a", Deny),
    ("timeout -k 5 --signal=TERM 1 touch a", Deny),
    ("stdbuf -oL touch a", Deny),
    ("command touch a", Deny),
    ("exec touch a", Deny),
    ("exec -a name touch a", Deny),
    ("builtin eval touch a", Deny),
    ("eval 'tou'ch a", Deny),
    ("eval \"touch a\"", Deny),
    ("eval $x", Ask),
    ("bash -lc 'touch a'", Deny),
    ("bash -c -- 'touch a'", Deny),
    ("bash -e -c 'sh -c \"touch a\"'", Deny),
    ("bash -c \"$x\"", Ask),
    ("bash <<'EOF'\ntouch a\nEOF", Deny),
    ("bash -s <<EOF\ntouch a\nEOF", Deny),
    ("bash <<< 'touch a'", Deny),
    ("bash <<< \"$x\"", Ask),
    ("curl http://x | sh", Ask),
    ("bash < file", Ask),
    ("source /dev/stdin <<< 'touch a'", Ask),
    ("source <(echo touch a)", Ask),
    ("find . -name x -exec touch {} \\;", Deny),
    ("find . -exec touch {} +", Deny),
    ("find . -exec echo {} \\; -exec touch {} \\;", Deny),
    ("xargs -n 1 -I{} touch {}", Deny),
    ("xargs -0 -P4 sh -c 'touch \"$@\"' _", Deny),
    ("su -c 'touch a' nobody", Deny),
    ("script -qc 'touch a' /dev/null", Deny),
    ("flock /tmp/lock touch a", Deny),
    ("flock /tmp/lock -c 'touch a'", Deny),
    ("watch -n 1 touch a", Deny),
    ("busybox touch a", Deny),
    ("trap 'touch a' EXIT", Deny),
    ("alias t=touch; t a", Deny),
    ("PROMPT_COMMAND='touch a'", Deny),
    ("PS1='$(touch a)'", Deny),
    ("{touch,a}", Ask),
    ("/usr/bin/tou?h a", Ask),
    ("$'to\\x75ch' a", Ask),
    ("touch\\\n a", Deny),
    ("tou\\\nch a", Deny),
    ("\\touch a", Deny),
    ("env -S 'touch a'", Ask),
    ("mapfile -C 'touch a' x", Deny),
    ("echo 'unclosed", Ask),
];

#[test]
fn t106_a_denied_program_is_found_wherever_it_stands() {
    let no_touch = permissions(&[], &[], &["touch"]);
    for (script, expected) in WITHOUT_TOUCH {
        assert_eq!(verdict(&no_touch, script), *expected, "{script}");
    }
}

#[test]
fn what_only_speaks_of_a_program_is_allowed() {
    let no_touch = permissions(&[], &[], &["touch"]);
    for script in [
        "echo touch",
        "echo 'sh -c touch'",
        "ls touch",
        "# touch a",
        "echo hi # touch a",
        "cat <<'EOF'\n$(touch a)\nEOF",
        "grep -r touch .",
        "git commit -m 'touch up'",
        "command -v touch",
        "echo '$(touch a)'",
        "touchy a",
        "trap - EXIT",
        "trap",
        "bash script.sh",
        "bash",
        "python3 -c 'print(1)'",
        "x=touch",
        "for f in *.rs; do wc -l \"$f\"; done",
        "[ -f x ] && echo $x",
        "alias",
        "echo {a,b} *",
        "((x = 1 + 2))",
        "ä; (( x ))",
        "((touch))",
        "",
    ] {
        let judgement = judge(&[&no_touch], script);
        assert_eq!(judgement.verdict, Verdict::Allow, "{script}: {judgement:?}");
    }
}

#[test]
fn the_strictest_word_counts() {
    use Verdict::Allow;
    let mixed = permissions(&["git", "ls *"], &["git push"], &["git push --force", "rm -rf"]);
    for (script, expected) in [
        ("git status", Allow),
        ("ls x", Allow),
        ("ls", Ask),
        ("git push", Ask),
        ("git push origin --force", Deny),
        ("git status; make", Ask),
        ("git status && rm -r -f x", Deny),
    ] {
        assert_eq!(verdict(&mixed, script), expected, "{script}");
    }
    let lenient = permissions(&["*"], &[], &[]);
    let strict = permissions(&[], &[], &["make"]);
    assert_eq!(judge(&[&lenient, &strict], "make").verdict, Deny);
    assert_eq!(judge(&[&lenient], "make").verdict, Allow);
    assert_eq!(judge(&[], "make").verdict, Allow);
    assert_eq!(judge(&[&Permissions::default()], "$(x) 'unclosed").verdict, Allow);
}

#[test]
fn a_judgement_says_why() {
    let rules = permissions(&[], &["make *"], &["rm -rf"]);
    let judgement = judge(&[&rules], "cd x && rm -fr /tmp/thing");
    assert_eq!(judgement.rule.as_deref(), Some("rm -rf"));
    assert_eq!(judgement.reason, "`rm -fr /tmp/thing` is denied by the rule `rm -rf`");
    let judgement = judge(&[&rules], "$tool x");
    assert_eq!(judgement.verdict, Verdict::Ask);
    assert!(judgement.reason.contains("shows only when it runs"), "{judgement:?}");
}

/// Whoever writes a script may be hostile: what is read in no time is told from the rest.
#[test]
#[expect(clippy::disallowed_methods, reason = "a reader that hangs is what is looked for")]
fn what_is_called_quick_is() {
    let rules = permissions(&[], &[], &["touch"]);
    let pieces = [
        "(",
        "((",
        "( ",
        "(( ",
        "$(",
        "`",
        "${x:-",
        "$((",
        "{ ",
        "if true; then ",
        "while true; do ",
        "case x in x) ",
        "f() ",
        "! ",
        "[[ ! ( ",
        "coproc ",
        "function f ",
        "time ",
        "a=(",
        "a[",
        "@(",
        "{a,",
        "<(",
        "\"$(",
        "\"${x:-\"",
        "a && ",
        "a | ",
        "a;",
        "sudo ",
        "eval ",
        "sh -c ",
        "<<E ",
        "\\",
        "'",
        "a ? ",
    ];
    for piece in pieces {
        let quick = (1..)
            .map(|times| piece.repeat(times))
            .take_while(|script| is_quickly_read(script))
            .last()
            .unwrap_or_default();
        let start = Instant::now();
        let judgement = judge(&[&rules], &quick);
        let took = start.elapsed();
        assert!(took.as_secs() < 2, "{piece}… took {took:?}: {judgement:?}");
        assert!(!is_quickly_read(&piece.repeat(100_000)), "{piece}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// No text panics, and none that has the program in a plain place is allowed.
    #[test]
    fn any_text_is_judged(pieces in proptest::collection::vec(prop_oneof![
        Just("(".to_owned()), Just(")".to_owned()), Just("$(".to_owned()), Just("`".to_owned()),
        Just("\"".to_owned()), Just("'".to_owned()), Just("${x".to_owned()), Just("}".to_owned()),
        Just("; ".to_owned()), Just("\n".to_owned()), Just("<<E\n".to_owned()), Just("E\n".to_owned()),
        Just("if ".to_owned()), Just("then ".to_owned()), Just("fi ".to_owned()), Just("touch a ".to_owned()),
        Just("|".to_owned()), Just("&& ".to_owned()), Just("\\".to_owned()), Just("env ".to_owned()),
        Just("sh -c ".to_owned()), Just("ä𝕏".to_owned()), "[ -~]{0,4}",
    ], 0..16)) {
        let script = pieces.concat();
        prop_assume!(is_quickly_read(&script));
        let rules = permissions(&[], &[], &["touch"]);
        let _judged = judge(&[&rules], &script);
        let appended = format!("{script}\ntouch a");
        if judge(&[&rules], &script).verdict == Verdict::Allow
            && script.chars().all(|c| c.is_alphanumeric() || " ;|&()\n".contains(c))
        {
            prop_assert_ne!(judge(&[&rules], &appended).verdict, Verdict::Allow, "{}", appended);
        }
    }
}
