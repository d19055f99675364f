//! What watches a running command: `on_input`, `stop_on` and `service`.

use std::collections::HashMap;

use regex::Regex;

use super::findings::Findings;
use super::keys::{INPUT_RULE, SERVICE, STOP_RULE};
use super::read::{At, entries, filled, fits, list, table, text};
use super::shape::Shape;
use super::syntax::Item;
use super::words::shown;
use crate::domain::plan::{InputRule, OnInput, Ready, StopRule, Unanswered};

/// What a service is ready by, before its port is looked up.
#[derive(Clone, Debug)]
pub(super) enum ReadyWhen {
    /// The name of a port.
    Port(String),
    /// Anything else.
    Known(Ready),
}

/// Patterns that have been compiled once, with what was wrong with them: thousands of tasks may
/// share a pattern.
#[derive(Default)]
pub(super) struct Patterns {
    faults: HashMap<String, Option<String>>,
}

impl Patterns {
    fn fault(&mut self, pattern: &str) -> Option<String> {
        if let Some(fault) = self.faults.get(pattern) {
            return fault.clone();
        }
        // The message is several lines with a marker below the pattern; the last one says it all.
        let fault = Regex::new(pattern).err().map(|error| {
            let message = error.to_string();
            let line = message.lines().next_back().unwrap_or_default();
            line.trim().trim_start_matches("error: ").to_owned()
        });
        self.faults.insert(pattern.to_owned(), fault.clone());
        fault
    }

    fn check(&mut self, what: &str, pattern: &At<String>, findings: &mut Findings<'_>) -> bool {
        let fault = self.fault(&pattern.value);
        if let Some(fault) = &fault {
            let message =
                format!("`{what}`: bad pattern `{}`: {}", shown(&pattern.value), shown(fault));
            findings.wrong(pattern.span.clone(), message);
        }
        fault.is_none()
    }

    /// `on_input`.
    pub(super) fn on_input(&mut self, item: &Item<'_>, findings: &mut Findings<'_>) -> OnInput {
        let mut answer = OnInput::default();
        let Some(array) = item.get_ref().as_array() else {
            answer.otherwise = unanswered(item, findings).unwrap_or_default();
            return answer;
        };
        for (index, item) in array.iter().enumerate() {
            if item.get_ref().is_str() {
                if let Some(otherwise) = unanswered(item, findings) {
                    answer.otherwise = otherwise;
                    if index + 1 < array.len() {
                        let message = "`on_input`: rules after this are never reached";
                        findings.wrong_hinted(item.span(), message, "put it last".to_owned());
                    }
                }
            } else if let Some(rule) = self.input_rule(item, findings) {
                answer.rules.push(rule);
            }
        }
        answer
    }

    fn input_rule(&mut self, item: &Item<'_>, findings: &mut Findings<'_>) -> Option<InputRule> {
        let table = table("on_input", Shape::Table, item, findings)?;
        let (mut pattern, mut send) = (None, None);
        for (key, item) in entries(table, INPUT_RULE, findings) {
            match key {
                "match" => pattern = filled("match", item, findings),
                _ => send = text("send", item, findings),
            }
        }
        for key in ["match", "send"] {
            if !table.contains_key(key) {
                findings.absent(item.span(), format!("the rule has no `{key}`"), None);
            }
        }
        let pattern = pattern.filter(|pattern| self.check("on_input", pattern, findings))?;
        Some(InputRule { pattern: pattern.value, send: send?.value })
    }

    /// `stop_on`.
    pub(super) fn stop_on(
        &mut self,
        item: &Item<'_>,
        findings: &mut Findings<'_>,
    ) -> Vec<StopRule> {
        let mut rules = Vec::new();
        for item in list("stop_on", Shape::StopRules, item, findings) {
            let Some(table) = table("stop_on", Shape::Table, item, findings) else { continue };
            let (mut pattern, mut reason) = (None, None);
            for (key, item) in entries(table, STOP_RULE, findings) {
                match key {
                    "match" => pattern = filled("match", item, findings),
                    _ => reason = filled("reason", item, findings),
                }
            }
            if !table.contains_key("match") {
                findings.absent(item.span(), "the rule has no `match`", None);
            }
            if let Some(pattern) = pattern.filter(|it| self.check("stop_on", it, findings)) {
                let reason = reason.map(|reason| reason.value);
                rules.push(StopRule { pattern: pattern.value, reason });
            }
        }
        rules
    }

    /// `service`.
    pub(super) fn service(
        &mut self,
        item: &Item<'_>,
        findings: &mut Findings<'_>,
    ) -> Option<At<ReadyWhen>> {
        let table = table("service", Shape::Service, item, findings)?;
        let mut ready = None;
        for (key, item) in entries(table, SERVICE, findings) {
            if key == "ready" {
                ready = filled("ready", item, findings);
            }
        }
        if !table.contains_key("ready") {
            let hint = "say what shows that it is ready, as in ready = \"port:web\"";
            findings.absent(item.span(), "the service has no `ready`", hint.to_owned());
        }
        let At { value, span } = ready?;
        let when = match value.split_once(':') {
            Some(("port", name)) => ReadyWhen::Port(name.to_owned()),
            Some(("http", url)) => {
                // `http:http://host/` is what is meant; `http://host/` is what people write.
                let url = if url.starts_with("//") { value.as_str() } else { url };
                if let Some(fault) = url_fault(url) {
                    findings.wrong(span, format!("`ready`: `{}` {fault}", shown(url)));
                    return None;
                }
                ReadyWhen::Known(Ready::Http(url.to_owned()))
            }
            Some(("log", pattern)) => {
                let pattern = At { value: pattern.to_owned(), span: span.clone() };
                if pattern.value.is_empty() {
                    findings.wrong(span, "`ready`: `log:` needs a pattern");
                    return None;
                }
                self.check("ready", &pattern, findings).then_some(())?;
                ReadyWhen::Known(Ready::Log(pattern.value))
            }
            _ => {
                let message = format!("`ready` cannot be `{}`", shown(&value));
                let hint = "write \"port:NAME\", \"http:URL\" or \"log:PATTERN\"".to_owned();
                findings.wrong_hinted(span, message, hint);
                return None;
            }
        };
        Some(At { value: when, span })
    }
}

fn unanswered(item: &Item<'_>, findings: &mut Findings<'_>) -> Option<Unanswered> {
    fits("on_input", Shape::OnInput, item, findings).then_some(())?;
    match super::read::word("on_input", &["escalate", "fail"], item, findings)? {
        "fail" => Some(Unanswered::Fail),
        _ => Some(Unanswered::Escalate),
    }
}

/// What is wrong with a URL that is to be asked for over plain HTTP.
fn url_fault(url: &str) -> Option<&'static str> {
    if url.starts_with("https://") {
        return Some("is https, which is not supported yet");
    }
    let Some(rest) = url.strip_prefix("http://") else {
        return Some("is not a URL: it has to begin with http://");
    };
    if url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Some("is not a URL: it has a space or a control character in it");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host_port = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = match host_port.rsplit_once(':') {
        // The colons of an address in brackets are its own.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (host_port, None),
    };
    if host.is_empty() {
        return Some("has no host");
    }
    match port {
        Some(port) if !port.parse::<u16>().is_ok_and(|port| port > 0) => Some("has a bad port"),
        _ => None,
    }
}
