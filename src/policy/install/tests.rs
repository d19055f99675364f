//! What is recognised, as a table.

use super::*;

/// `ecosystem name@version in folder`, `-name` for a removal, `lock FILE`.
fn shown(text: &str) -> Vec<String> {
    let installs = installs(text, Path::new("/w"));
    installs
        .iter()
        .map(|install| {
            let what = match &install.what {
                What::Package { name, version: Some(version) } => format!("{name} {version}"),
                What::Package { name, version: None } => name.clone(),
                What::Removed { name } => format!("-{name}"),
                What::Locked => {
                    format!("lock {}", install.locks.first().map_or("?", String::as_str))
                }
            };
            let folder = match &install.folder {
                Folder::Project(folder) if folder == Path::new("/w") => String::new(),
                Folder::Project(folder) => format!(" in {}", folder.display()),
                Folder::Machine => " machine".to_owned(),
                Folder::Unknown => " somewhere".to_owned(),
            };
            format!("{}: {what}{folder}", install.ecosystem)
        })
        .collect()
}

fn check(rows: &[(&str, &[&str])]) {
    for (text, expected) in rows {
        assert_eq!(shown(text), *expected, "{text}");
    }
}

#[test]
fn javascript() {
    check(&[
        ("npm i react@18 -D", &["npm: react 18"]),
        ("npm install", &["npm: lock package-lock.json"]),
        ("npm ci", &["npm: lock package-lock.json"]),
        ("npm ci --omit dev", &["npm: lock package-lock.json"]),
        ("npm add @types/node@20 vite", &["npm: @types/node 20", "npm: vite"]),
        ("npm i -g typescript", &["npm: typescript machine"]),
        ("npm --prefix web i vitest", &["npm: vitest in /w/web"]),
        ("npm i alias@npm:real@1", &["npm: alias npm:real@1"]),
        ("npm i ./lib ../x.tgz user/repo git+https://h/r file:../y", &[]),
        ("npm i .", &["npm: lock package-lock.json"]),
        ("npm i $PACKAGES", &[]),
        ("npm i left-pad $MORE", &["npm: left-pad"]),
        ("npm i --dry-run react", &[]),
        ("npm install --help", &[]),
        ("npm rm react", &["npm: -react"]),
        ("npm run install", &[]),
        ("npm test", &[]),
        ("npm", &[]),
        ("pnpm add -D vitest@1", &["npm: vitest 1"]),
        ("pnpm add", &[]),
        ("pnpm i --frozen-lockfile", &["npm: lock pnpm-lock.yaml"]),
        ("pnpm -C web install", &["npm: lock pnpm-lock.yaml in /w/web"]),
        ("pnpm dlx create-x", &[]),
        ("yarn", &["npm: lock yarn.lock"]),
        ("yarn --immutable", &["npm: lock yarn.lock"]),
        ("yarn add react react-dom", &["npm: react", "npm: react-dom"]),
        ("yarn global add serve", &["npm: serve machine"]),
        ("yarn workspace web add vite", &["npm: vite"]),
        ("yarn build", &[]),
        ("yarn --version", &[]),
    ]);
}

#[test]
fn python() {
    check(&[
        ("pip install requests==2.31 'flask>=2'", &["pip: requests 2.31", "pip: flask >=2"]),
        ("pip3 install 'Requests[socks]'", &["pip: requests"]),
        ("pip3.11 install ruamel.yaml", &["pip: ruamel-yaml"]),
        ("python -m pip install -U typing_extensions", &["pip: typing-extensions"]),
        ("python3.12 -u -m pip install x", &["pip: x"]),
        ("python -m venv v", &[]),
        ("python -m pytest install x", &[]),
        ("pip install -r requirements.txt", &["pip: lock requirements.txt"]),
        ("pip install -r dev.txt black", &["pip: lock dev.txt", "pip: black"]),
        ("pip install -e . -c limits.txt", &[]),
        ("pip install ./x.whl https://h/y.whl", &[]),
        ("pip install 'a @ https://h/a.zip'", &["pip: a"]),
        ("pip uninstall -y requests", &["pip: -requests"]),
        ("pip freeze", &[]),
        ("pipx install black", &["pip: black machine"]),
        ("uv add httpx", &["pip: httpx"]),
        ("uv sync --frozen", &["pip: lock uv.lock"]),
        ("uv pip install -r r.txt rich", &["pip: lock r.txt", "pip: rich"]),
        ("uv pip sync r.txt", &["pip: lock r.txt"]),
        ("uv tool install ruff", &["pip: ruff machine"]),
        ("uv run pytest", &[]),
        ("poetry add 'pendulum@^2' -G dev", &["pip: pendulum ^2"]),
        ("poetry install --only main", &["pip: lock poetry.lock"]),
        ("poetry -C svc remove x", &["pip: -x in /w/svc"]),
    ]);
}

#[test]
fn the_others() {
    check(&[
        ("cargo add serde@1 --features derive", &["cargo: serde 1"]),
        ("cargo +nightly add anyhow", &["cargo: anyhow"]),
        ("cargo add x --manifest-path sub/Cargo.toml", &["cargo: x in /w/sub"]),
        ("cargo install ripgrep --version 14.1", &["cargo: ripgrep 14.1 machine"]),
        ("cargo install --path .", &[]),
        ("cargo fetch --locked", &["cargo: lock Cargo.lock"]),
        ("cargo rm serde", &["cargo: -serde"]),
        ("cargo build", &[]),
        ("go get example.org/m@v1.2", &["go: example.org/m v1.2"]),
        ("go get ./...", &["go: lock go.sum"]),
        ("go get example.org/m@none", &["go: -example.org/m"]),
        ("go mod download", &["go: lock go.sum"]),
        ("go install example.org/t@latest", &["go: example.org/t latest machine"]),
        ("go build ./...", &[]),
        (
            "apt-get install -y curl=7.88 git/stable",
            &["apt: curl 7.88 machine", "apt: git machine"],
        ),
        ("apt install -t sid libc6:arm64 vim-", &["apt: libc6 machine", "apt: -vim machine"]),
        ("apt-get install g++", &["apt: g++ machine"]),
        ("apt-get -s install curl", &[]),
        ("apt-get update", &[]),
        ("gem install rails -v 7.1", &["gem: rails 7.1 machine"]),
        ("gem install rake:13", &["gem: rake 13 machine"]),
        ("bundle", &["gem: lock Gemfile.lock"]),
        ("bundle install --jobs 4", &["gem: lock Gemfile.lock"]),
        ("bundle add puma --version 6", &["gem: puma 6"]),
        ("bundle exec rake", &[]),
        ("composer require monolog/monolog:^3", &["composer: monolog/monolog ^3"]),
        ("composer install -d api", &["composer: lock composer.lock in /w/api"]),
        ("composer global require x/y", &["composer: x/y machine"]),
        ("mvn -q dependency:go-offline", &["maven: lock pom.xml"]),
        ("./mvnw -f sub/pom.xml package", &["maven: lock pom.xml in /w/sub"]),
        ("mvn --version", &[]),
        ("./gradlew build -x test", &["maven: lock gradle.lockfile"]),
        ("gradle -p app test", &["maven: lock gradle.lockfile in /w/app"]),
        ("gradle tasks", &[]),
    ]);
}

#[test]
fn wherever_it_stands_in_a_script() {
    check(&[
        ("cd x && sudo -E npm i react@18 -D; true", &["npm: react 18 in /w/x"]),
        ("cd a/b/.. && cd ../c; npm ci", &["npm: lock package-lock.json in /w/c"]),
        ("cd /abs && npm ci", &["npm: lock package-lock.json in /abs"]),
        ("cd $X && npm i vite", &["npm: vite somewhere"]),
        ("cd; npm i vite", &["npm: vite somewhere"]),
        ("(cd a && npm i x); npm i y", &["npm: x in /w/a", "npm: y"]),
        ("cd a | true; npm i y", &["npm: y"]),
        ("bash -c 'cd a; npm i x'; npm i y", &["npm: x in /w/a", "npm: y"]),
        ("eval 'cd a'; npm i x", &["npm: x in /w/a"]),
        ("X=1 env Y=2 nice -n 5 timeout 60 /usr/bin/npm i x", &["npm: x"]),
        (
            "if true; then npm ci; else yarn; fi",
            &["npm: lock package-lock.json", "npm: lock yarn.lock"],
        ),
        ("npm ci || npm i", &["npm: lock package-lock.json"]),
        ("for p in a b; do npm i $p; done", &[]),
        ("npm i x &", &[]),
        ("f() { npm i x; }", &[]),
        ("echo npm i x", &[]),
        ("npm i x # and y", &["npm: x"]),
        ("npm i \\\n  x \\\n  y", &["npm: x", "npm: y"]),
        ("xargs npm i < list", &[]),
        ("echo 'unbalanced; npm i x", &[]),
        ("cat <<'E'\nnpm i x\nE", &[]),
    ]);
}

#[test]
fn a_long_script_is_looked_at_line_by_line() {
    let brackets = "echo \"(((((((((((((\"\n".repeat(20);
    assert_eq!(shown(&format!("{brackets}npm i x\n{brackets}")), ["npm: x"]);
    let many: String = (0..2 * INSTALLS_MAX).map(|n| format!("npm i p{n}\n")).collect();
    assert_eq!(shown(&many).len(), INSTALLS_MAX);
}
