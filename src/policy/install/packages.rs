//! How packages are named on command lines, each ecosystem in its own way. Folders, archives and
//! addresses name none.

/// A package as it was named.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) version: Option<String>,
    /// The word asks for its removal, as `go get x@none` does.
    pub(super) is_removed: bool,
}

fn named(name: &str, version: Option<&str>) -> Option<Named> {
    let sound = !name.is_empty()
        && name.len() <= 214
        && name.chars().all(|c| c.is_alphanumeric() || "@/._-+~".contains(c));
    let version = version.filter(|version| !version.is_empty()).map(str::to_owned);
    sound.then(|| Named { name: name.to_owned(), version, is_removed: false })
}

/// True for a program that may have its version behind its name: `pip3`, `python3.12`.
pub(super) fn is_numbered(program: &str, name: &str) -> bool {
    program
        .strip_prefix(name)
        .is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

fn is_place(word: &str) -> bool {
    word.starts_with(['.', '/', '~']) || word.contains("://") || word.starts_with("git+")
}

/// `react@18`, `@types/node@20`, `alias@npm:real@1`.
pub(super) fn npm(word: &str) -> Option<Named> {
    let is_archive = word.ends_with(".tgz") || word.ends_with(".tar.gz");
    if is_place(word) || is_archive || word.starts_with("file:") || word.starts_with("github:") {
        return None;
    }
    let (scope, rest) = match word.strip_prefix('@') {
        Some(rest) => ("@", rest),
        None => ("", word),
    };
    let (name, version) = match rest.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (rest, None),
    };
    // `user/repo` is a place.
    let slashes = name.matches('/').count();
    if slashes != usize::from(!scope.is_empty()) {
        return None;
    }
    named(&format!("{scope}{name}"), version)
}

/// `requests==2.31`, `requests[socks]>=2`, `requests @ https://…`, `requests@^2`. Names are compared
/// as PEP 503 has it: in small letters, with `-` for `_` and `.`.
pub(super) fn pip(word: &str) -> Option<Named> {
    if is_place(word) && !word.contains(" @ ") || word.ends_with(".whl") || word.ends_with(".gz") {
        return None;
    }
    let end =
        word.find(|c: char| !(c.is_alphanumeric() || "._-".contains(c))).unwrap_or(word.len());
    let (name, rest) = word.split_at(end);
    let rest = match rest.strip_prefix('[') {
        Some(extras) => extras.split_once(']').map_or("", |(_, rest)| rest),
        None => rest,
    };
    let version = rest.split(';').next().unwrap_or_default().trim();
    let version = version.strip_prefix("==").or(version.strip_prefix('@')).unwrap_or(version);
    let mut plain = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '-' | '_' | '.' if plain.ends_with('-') => {}
            '-' | '_' | '.' => plain.push('-'),
            other => plain.extend(other.to_lowercase()),
        }
    }
    named(plain.trim_matches('-'), Some(version.trim()).filter(|version| !is_place(version)))
}

/// `serde@1`.
pub(super) fn plain(word: &str) -> Option<Named> {
    if is_place(word) {
        return None;
    }
    match word.split_once('@') {
        Some((name, version)) => named(name, Some(version)),
        None => named(word, None),
    }
}

/// `example.org/mod@v1.2`; `@none` removes.
pub(super) fn go(word: &str) -> Option<Named> {
    let found = plain(word)?;
    let is_removed = found.version.as_deref() == Some("none");
    Some(Named { is_removed, ..found })
}

/// `curl=7.88`, `curl/stable`, `curl:arm64`, `curl-` (removes).
pub(super) fn apt(word: &str) -> Option<Named> {
    if is_place(word) || word.ends_with(".deb") {
        return None;
    }
    let (word, version) = match word.split_once('=') {
        Some((name, version)) => (name, Some(version)),
        None => (word, None),
    };
    let name = word.split(['/', ':']).next().unwrap_or_default();
    match name.strip_suffix('-') {
        Some(name) => Some(Named { is_removed: true, ..named(name, None)? }),
        None => {
            named(name.strip_suffix('+').filter(|n| !n.ends_with('+')).unwrap_or(name), version)
        }
    }
}

/// `rails:7.1`.
pub(super) fn gem(word: &str) -> Option<Named> {
    if is_place(word) || word.ends_with(".gem") {
        return None;
    }
    match word.split_once(':') {
        Some((name, version)) => named(name, Some(version)),
        None => named(word, None),
    }
}

/// `monolog/monolog:^3`.
pub(super) fn composer(word: &str) -> Option<Named> {
    if is_place(word) {
        return None;
    }
    match word.split_once([':', '=', ' ']) {
        Some((name, version)) => named(name, Some(version)),
        None => named(word, None),
    }
}
