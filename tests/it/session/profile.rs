//! The user's shell profile: captured once, within limits, and only where it is asked for.

use std::path::Path;
use std::time::{Duration, Instant};

use callboard::domain::result::Note;
use callboard::domain::session::{ProfileSpec, Shell};

use super::house::*;

/// A home with these files, and what a session in it is made of.
struct Home(tempfile::TempDir);

impl Home {
    fn with(files: &[(&str, &str)]) -> Self {
        let home = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            home.write(name, text);
        }
        home
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.path().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    async fn open(&self, shell: Shell, limit_ms: u64) -> Option<Session> {
        self.open_passing(shell, limit_ms, &[]).await
    }

    /// `None` where the machine lacks the shell.
    async fn open_passing(&self, shell: Shell, limit_ms: u64, pass: &[&str]) -> Option<Session> {
        let folder = tempfile::tempdir().unwrap();
        let mut spec = spec(folder.path());
        spec.shell = shell;
        spec.env.retain(|(name, _)| name != "HOME");
        spec.env.push(("HOME".to_owned(), self.path().to_str().unwrap().to_owned()));
        spec.profile = Some(ProfileSpec {
            cache: self.path().join("cache"),
            keep: vec!["LANG".to_owned()],
            pass: pass.iter().map(|&name| name.to_owned()).collect(),
            limit_ms,
        });
        match open_as(stage(), folder, spec).await {
            Ok(session) => Some(session),
            Err(message) if message.contains("on this machine") => {
                eprintln!("skipped: {message}");
                None
            }
            Err(message) => panic!("{message}"),
        }
    }
}

fn remarks(ended: &Ended) -> Vec<&str> {
    let notes = ended.end.notes.iter();
    notes
        .filter_map(|note| match note {
            Note::Profile { message } => Some(message.as_str()),
            _ => None,
        })
        .collect()
}

/// Counts how often it has run; sets a variable, a secret, a function and an alias.
const POSIX: &str = r#"
case $- in *i*) ;; *) return;; esac
echo run >>"$HOME/runs"
export FROM_RC='a b' MY_TOKEN=abracadabra PASSED_TOKEN=sesame LANG=xx_XX PATH="$HOME/bin:$PATH"
greet() { echo "hello $1"; }
alias ll='echo aliased'
"#;

const FISH: &str = r#"
status is-interactive; or exit
echo run >>$HOME/runs
set -gx FROM_RC 'a b'
set -gx MY_TOKEN abracadabra
set -gx PASSED_TOKEN sesame
set -gx LANG xx_XX
set -gx PATH $HOME/bin $PATH
function greet; echo "hello $argv[1]"; end
alias ll='echo aliased'
"#;

fn rc(shell: Shell) -> (&'static str, &'static str) {
    match shell {
        Shell::Bash => (".bashrc", POSIX),
        Shell::Zsh => (".zshrc", POSIX),
        Shell::Fish => (".config/fish/config.fish", FISH),
        Shell::Sh => (".profile", POSIX),
    }
}

#[test]
fn a_profile_is_captured_once_and_its_secrets_stay_out() {
    for (_, shell) in Shell::ALL {
        with(async {
            let home = Home::with(&[rc(shell)]);
            let pass = ["PASSED_TOKEN"];
            let Some(mut session) = home.open_passing(shell, 5_000, &pass).await else { return };
            let ended =
                session.run("echo \"$FROM_RC:$MY_TOKEN:$PASSED_TOKEN:$LANG\"; echo $PATH").await;
            let bin = format!("{}/bin", home.path().display());
            let first = ended.stdout.lines().next().unwrap_or_default();
            assert_eq!(first, "a b::sesame:C.UTF-8", "{shell:?}: {ended:?}");
            let path = ended.stdout.lines().nth(1).unwrap_or_default();
            assert!(path.starts_with(&bin), "{shell:?}: {ended:?}");
            assert!(
                matches!(&remarks(&ended)[..], [only] if only.contains("MY_TOKEN") && !only.contains("abracadabra")),
                "{shell:?}: {ended:?}"
            );
            let ended = session.run("ll").await;
            assert_eq!(ended.stdout, "aliased\n", "{shell:?}: {ended:?}");
            assert_eq!(remarks(&ended), [""; 0], "told once");
            // dash tells no functions.
            if shell != Shell::Sh {
                assert_eq!(session.run("greet you").await.stdout, "hello you\n", "{shell:?}");
            }
            assert_eq!(session.close().await, 0);

            let mut second = home.open(shell, 5_000).await.unwrap();
            assert_eq!(second.run("echo $FROM_RC").await.stdout, "a b\n", "{shell:?}");
            assert_eq!(second.close().await, 0);
            let runs = std::fs::read_to_string(home.path().join("runs")).unwrap();
            assert_eq!(runs.lines().count(), 1, "{shell:?}");
            let kept = std::fs::read_dir(home.path().join("cache")).unwrap();
            for file in kept {
                let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
                assert!(
                    !text.contains("abracadabra") && !text.contains("sesame"),
                    "{shell:?}: a secret is kept on disk"
                );
            }
            // Another profile is captured anew.
            let (name, text) = rc(shell);
            home.write(name, &text.replace("a b", "other than before"));
            let mut third = home.open(shell, 5_000).await.unwrap();
            assert_eq!(third.run("echo $FROM_RC").await.stdout, "other than before\n", "{shell:?}");
            assert_eq!(third.close().await, 0);
        });
    }
}

#[test]
fn a_profile_that_hangs_is_ended_and_told_once_it_has_cost_its_limit() {
    with(async {
        let home =
            Home::with(&[(".bashrc", "export A=1; sleep 300 & read x </dev/tty; sleep 301")]);
        let began = Instant::now();
        let mut session = home.open(Shell::Bash, 300).await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(300));
        let ended = session.run("echo \"<$A>\"; pgrep -f 'sleep 30[01]' -P $PPID").await;
        assert_eq!(ended.stdout, "<>\n", "{ended:?}");
        assert!(remarks(&ended)[0].contains("did not end within 300 ms"), "{ended:?}");
        assert_eq!(session.close().await, 0);
        // That it hangs is remembered, too.
        let began = Instant::now();
        let mut session = home.open(Shell::Bash, 300).await.unwrap();
        assert!(began.elapsed() < Duration::from_millis(300), "{:?}", began.elapsed());
        assert!(remarks(&session.run("true").await)[0].contains("did not end"));
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn a_profile_that_prints_fails_or_leaves_is_told() {
    for (text, told, kept) in [
        ("export A=1; echo 'Welcome back'; echo oops >&2", "printed: Welcome back / oops", "1"),
        ("export A=1; exit 7", "ended its shell", ""),
        ("export A=1; exec true", "ended its shell", ""),
        ("export A=1; (", "printed:", ""),
        ("export A=1; while :; do echo flood; done", "did not end", ""),
        ("export A=1; set -e; false", "ended its shell", ""),
    ] {
        with(async {
            let home = Home::with(&[(".bashrc", text)]);
            let mut session = home.open(Shell::Bash, 500).await.unwrap();
            let ended = session.run("echo \"$A\"").await;
            assert_eq!(ended.stdout, format!("{kept}\n"), "{text}: {ended:?}");
            assert!(
                remarks(&ended).iter().any(|remark| remark.contains(told)),
                "{text}: {ended:?}"
            );
            assert_eq!(session.close().await, 0);
        });
    }
}

#[test]
fn t36_prompt_themes_never_disturb_a_driver() {
    let theme = "PROMPT_COMMAND='printf \"\\r\\e[2K\"'; PS1='$(sleep .2; echo \"multi\\nline ❯ \")'; \
        PS0='[start]'; RPROMPT=right; set -o vi; trap 'echo debug' DEBUG; export PS1 PROMPT_COMMAND";
    let fish = "function fish_prompt; sleep .2; echo 'multi line ❯ '; end\nfunction fish_right_prompt; echo right; end";
    for (_, shell) in Shell::ALL {
        with(async {
            let home = Home::with(&[match shell {
                Shell::Fish => (".config/fish/config.fish", fish),
                _ => (rc(shell).0, theme),
            }]);
            let Some(mut session) = home.open(shell, 5_000).await else { return };
            for number in 1..=3 {
                let began = Instant::now();
                let ended = session.run(&format!("echo {number}")).await;
                assert_eq!(
                    (&*ended.stdout, &*ended.stderr),
                    (&*format!("{number}\n"), ""),
                    "{shell:?}"
                );
                assert!(began.elapsed() < Duration::from_secs(1));
            }
            // A theme that a command sets disturbs no driver either.
            if shell != Shell::Fish {
                session
                    .run("PROMPT_COMMAND='printf X' PS1='$(echo Y)' PS0=Z PS2=W RPROMPT=V")
                    .await;
            }
            let ended = session.run("echo 4").await;
            assert_eq!((&*ended.stdout, &*ended.stderr), ("4\n", ""), "{shell:?}");
            assert_eq!(session.close().await, 0);
        });
    }
}

#[test]
fn t41_without_a_profile_there_are_no_aliases() {
    with(async {
        let rc = "alias rm='rm -i' cd='z' grep='grep --color=always'";
        let home = Home::with(&[(".bashrc", rc), (".bash_profile", rc), (".profile", rc)]);
        let folder = tempfile::tempdir().unwrap();
        let mut spec = spec(folder.path());
        spec.env.retain(|(name, _)| name != "HOME");
        spec.env.push(("HOME".to_owned(), home.path().to_str().unwrap().to_owned()));
        let mut session = open_as(stage(), folder, spec).await.unwrap();
        let ended = session.run("touch q; rm q; cd /tmp; pwd; type grep").await;
        let [place, grep] = ended.stdout.lines().collect::<Vec<_>>()[..] else {
            panic!("{ended:?}")
        };
        assert_eq!((place, &*ended.end.cwd), ("/tmp", "/tmp"));
        assert!(grep.starts_with("grep is /") && grep.ends_with("/grep"), "{ended:?}");
        assert_eq!(ended.end.awaiting, None);
        assert_eq!(session.close().await, 0);
    });
}

#[test]
fn t35_a_debug_trap_stays_and_statuses_are_right() {
    with(async {
        let mut session = open().await;
        let trap = "shopt -s extdebug; t() { [ \"$BASH_COMMAND\" = skipme ] && return 1; return 0; }; trap t DEBUG";
        assert_eq!(session.run(trap).await.end.exit_code, Some(0));
        let ended = session.run("skipme; echo rc=$?").await;
        assert!(ended.stdout.starts_with("rc="), "{ended:?}");
        assert_eq!((&*ended.stderr, ended.end.exit_code), ("", Some(0)), "{ended:?}");
        assert_eq!(session.run("trap -p DEBUG").await.stdout, "trap -- 't' DEBUG\n");
        assert_eq!(session.run("false").await.end.exit_code, Some(1));
        assert_eq!(session.run("echo after").await.stdout, "after\n");
        assert_eq!(session.close().await, 0);
    });
}
