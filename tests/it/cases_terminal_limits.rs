//! Failures seen in other tools' limits on what a command may take, each by its id, against the
//! real binary.

use serde_json::json;

use crate::house::House;

#[test]
fn t56_a_task_that_takes_too_much_fails_and_the_others_do_not() {
    let house = House::new();
    house.write(
        "agents.toml",
        "[[agent]]\nname = 'a'\ncapacity = 2\nlimits = { memory = '256MiB', processes = 100 }\n",
    );
    let (code, report) = house.run(
        "[[task]]\nid = 'memory'\nrun = \"python3 -c 'b=bytearray(1<<30); input()'\"\n\
         limits = { memory = '1GiB' }\n\
         [[task]]\nid = 'processes'\nrun = 'for i in $(seq 500); do sleep 30 & done'\n\
         limits = { processes = 64 }\n\
         [[task]]\nid = 'cpu'\nrun = ['true', 'while :; do :; done']\nlimits = { cpu = '300ms' }\n\
         [[task]]\nid = 'beside'\n\
         run = ['sleep 1; python3 -c \"b=bytearray(1<<26)\"', 'echo fine']\n",
    );
    assert_eq!(code, 1, "{report:#}");
    let limits = [("memory", 256 << 20), ("processes", 64), ("cpu", 300)];
    for (index, (resource, limit)) in limits.into_iter().enumerate() {
        let task = &report["tasks"][index];
        let quota = json!({ "kind": "quota", "resource": resource, "limit": limit });
        assert_eq!((&task["state"], &task["reason"]), (&json!("failed"), &quota), "{task:#}");
        let last = task["commands"].as_array().unwrap().last().unwrap();
        assert_eq!((&last["state"], &last["reason"]), (&json!("failed"), &quota));
    }
    assert_eq!(report["tasks"][3]["state"], "succeeded", "{report:#}");
}
