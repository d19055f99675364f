//! What clients of other versions, and other programs altogether, are told.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::{begin, close, coordinator};
use crate::house::House;

pub(super) fn connect(house: &House) -> UnixStream {
    let lock: Value = serde_json::from_str(&house.read(".callboard/lock")).unwrap();
    let socket: PathBuf = serde_json::from_value(lock["socket"].clone()).unwrap();
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

pub(super) fn say(stream: &mut UnixStream, document: &[u8]) {
    let length = u32::try_from(document.len()).unwrap();
    stream.write_all(&length.to_be_bytes()).unwrap();
    stream.write_all(document).unwrap();
}

pub(super) fn hear(stream: &mut UnixStream) -> Value {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut document = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut document).unwrap();
    serde_json::from_slice(&document).unwrap()
}

pub(super) fn ask(stream: &mut UnixStream, request: &Value) -> Value {
    say(stream, request.to_string().as_bytes());
    hear(stream)
}

pub(super) fn hello(version: u32) -> Value {
    json!({"id": 1, "new_field": true,
        "call": {"hello": {"version": version, "callboard": "9.9.9", "more": {}}}})
}

#[test]
fn other_versions_are_told_and_the_coordinator_serves_on() {
    let house = House::new();
    begin(&house);
    assert_eq!(house.call(&["exec", "-c", "true"]).code, 0);
    let before = coordinator(&house);
    let ours = env!("CARGO_PKG_VERSION");
    for version in
        [callboard::control::CONTROL_VERSION - 1, callboard::control::CONTROL_VERSION + 1]
    {
        let mut stream = connect(&house);
        let answer = ask(&mut stream, &hello(version));
        assert_eq!(answer["refusal"]["failure"]["kind"], "version", "{answer}");
        let message = answer["refusal"]["failure"]["message"].as_str().unwrap();
        assert!(message.contains(ours) && message.contains("9.9.9"), "{message}");
        assert!(answer["refusal"]["failure"]["hint"].as_str().unwrap().contains("serve --replace"));
        let answer = ask(&mut stream, &json!({"id": 2, "call": "status"}));
        assert_eq!(
            answer["refusal"]["failure"]["kind"], "version",
            "not without a hello: {answer}"
        );
    }
    let mut stream = connect(&house);
    assert_eq!(ask(&mut stream, &hello(callboard::control::CONTROL_VERSION))["reply"]["id"], 1);
    let answer = ask(&mut stream, &json!({"id": 7, "call": "fly_to_the_moon"}));
    assert_eq!(answer["refusal"]["id"], 7, "{answer}");
    assert_eq!(answer["refusal"]["failure"]["kind"], "version", "{answer}");
    let answer = ask(&mut stream, &json!({"id": 8, "call": "status"}));
    assert_eq!(answer["reply"]["id"], 8, "the connection goes on: {answer}");
    for bytes in [&b"{\"no\": \"number\"}"[..], b"no json", b""] {
        let mut stream = connect(&house);
        say(&mut stream, bytes);
        assert!(hear(&mut stream)["refusal"].is_object());
        assert_eq!(stream.read(&mut [0]).unwrap(), 0, "closed");
    }
    let mut oversized = connect(&house);
    oversized.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    assert!(hear(&mut oversized)["refusal"].is_object());
    assert_eq!(coordinator(&house), before);
    assert_eq!(house.call(&["exec", "-c", "true"]).code, 0);
    drop(stream);
    close(&house);
}
