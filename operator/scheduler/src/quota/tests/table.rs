//! Tests of borrowing, lending and limits, with cases that a Kueue user knows.

use super::common::{flavor_resource, tree};

struct Case {
    name: &'static str,
    queues: &'static [&'static str],
    charged: &'static [&'static str],
    /// Queue, resource, units available, units available without any usage, units borrowed.
    expect: &'static [(&'static str, &'static str, i128, i128, i128)],
}

const CASES: &[Case] = &[
    Case {
        name: "the worked example of the design",
        queues: &["root", "a < root: gpu=10+3-4", "b < root: gpu=6"],
        charged: &["a: gpu=8", "b: gpu=5"],
        // The root has 4 + 6, and 2 + 5 are in use. `a` could get its 10 and 3 more.
        expect: &[
            ("root", "gpu", 3, 10, 0),
            ("a", "gpu", 3, 13, 0),
            ("b", "gpu", 3, 10, 0),
        ],
    },
    Case {
        name: "a queue alone has its nominal quota",
        queues: &["a: gpu=10"],
        charged: &["a: gpu=4"],
        expect: &[("a", "gpu", 6, 10, 0)],
    },
    Case {
        name: "a root borrows and lends nothing, whatever its limits say",
        queues: &["a: gpu=10+5-2"],
        charged: &["a: gpu=4"],
        expect: &[("a", "gpu", 6, 10, 0)],
    },
    Case {
        name: "what others leave idle can be borrowed",
        queues: &["c:", "a < c: gpu=4", "b < c: gpu=6"],
        charged: &["a: gpu=7"],
        expect: &[("a", "gpu", 3, 10, 3), ("b", "gpu", 3, 10, 0)],
    },
    Case {
        name: "a borrowing limit is over and above nominal",
        queues: &["c:", "a < c: gpu=4+2", "b < c: gpu=6"],
        charged: &["a: gpu=5"],
        expect: &[("a", "gpu", 1, 6, 1), ("b", "gpu", 5, 10, 0)],
    },
    Case {
        name: "a borrowing limit of 0 is nominal and no more",
        queues: &["c:", "a < c: gpu=4+0", "b < c: gpu=6"],
        charged: &["a: gpu=4"],
        expect: &[("a", "gpu", 0, 4, 0), ("b", "gpu", 6, 10, 0)],
    },
    Case {
        name: "a borrowing limit is no promise",
        queues: &["c:", "a < c: gpu=4+5", "b < c: gpu=6"],
        charged: &["b: gpu=5"],
        expect: &[("a", "gpu", 5, 9, 0), ("b", "gpu", 5, 10, 0)],
    },
    Case {
        name: "a lending limit of 0 keeps all",
        queues: &["c:", "a < c: gpu=4", "b < c: gpu=6-0"],
        charged: &[],
        expect: &[("a", "gpu", 4, 4, 0), ("b", "gpu", 10, 10, 0)],
    },
    Case {
        name: "a lending limit above nominal lends all",
        queues: &["c:", "a < c: gpu=4", "b < c: gpu=6-9"],
        charged: &["b: gpu=1"],
        expect: &[("a", "gpu", 9, 10, 0), ("b", "gpu", 9, 10, 0)],
    },
    Case {
        name: "what is kept is used first, so that the rest can be lent",
        queues: &["c:", "a < c: gpu=4", "b < c: gpu=6-2"],
        charged: &["b: gpu=4"],
        expect: &[("a", "gpu", 6, 6, 0), ("b", "gpu", 6, 10, 0)],
    },
    Case {
        name: "without nominal quota everything is borrowed",
        queues: &["c: gpu=5", "a < c: gpu=0", "b < c: gpu=3"],
        charged: &["a: gpu=6"],
        expect: &[
            ("a", "gpu", 2, 8, 6),
            ("b", "gpu", 2, 8, 0),
            ("c", "gpu", 2, 8, 0),
        ],
    },
    Case {
        name: "without nominal quota and with a borrowing limit of 0 nothing is had",
        queues: &["c: gpu=5", "a < c: gpu=0+0"],
        charged: &[],
        expect: &[("a", "gpu", 0, 0, 0)],
    },
    Case {
        name: "quota of the parent is for whoever comes",
        queues: &["c: gpu=5", "a < c: gpu=1", "b < c: gpu=1"],
        charged: &["a: gpu=4"],
        expect: &[("a", "gpu", 3, 7, 3), ("b", "gpu", 3, 7, 0)],
    },
    Case {
        name: "flavors are apart",
        queues: &[
            "c:",
            "a < c: a100/gpu=4 h100/gpu=0",
            "b < c: a100/gpu=0 h100/gpu=6",
        ],
        charged: &["a: h100/gpu=2 a100/gpu=1"],
        expect: &[
            ("a", "a100/gpu", 3, 4, 0),
            ("a", "h100/gpu", 4, 6, 2),
            ("b", "a100/gpu", 3, 4, 0),
            ("b", "h100/gpu", 4, 6, 0),
        ],
    },
    Case {
        name: "resources are apart",
        queues: &["c:", "a < c: gpu=4 cpu=64", "b < c: gpu=4 cpu=64-0"],
        charged: &["a: gpu=6 cpu=60"],
        expect: &[
            ("a", "gpu", 2, 8, 2),
            ("a", "cpu", 4, 64, 0),
            ("b", "cpu", 68, 128, 0),
        ],
    },
    Case {
        name: "nested: idle quota is borrowed from the cousin",
        queues: &[
            "root",
            "left < root",
            "right < root",
            "a < left: gpu=2",
            "b < left: gpu=3",
            "c < right: gpu=5",
        ],
        charged: &["a: gpu=9"],
        expect: &[
            ("a", "gpu", 1, 10, 7),
            ("b", "gpu", 1, 10, 0),
            ("c", "gpu", 1, 10, 0),
            ("left", "gpu", 1, 10, 4),
            ("right", "gpu", 1, 10, 0),
        ],
    },
    Case {
        name: "nested: a borrowing limit of the parent holds for all below it",
        queues: &[
            "root",
            "left < root: gpu=0+1",
            "right < root",
            "a < left: gpu=2",
            "b < left: gpu=3",
            "c < right: gpu=5",
        ],
        charged: &["a: gpu=5"],
        expect: &[
            ("a", "gpu", 1, 6, 3),
            ("b", "gpu", 1, 6, 0),
            ("c", "gpu", 5, 10, 0),
        ],
    },
    Case {
        name: "nested: a lending limit of the parent keeps for all below it",
        queues: &[
            "root",
            "left < root: gpu=0-1",
            "right < root",
            "a < left: gpu=2",
            "b < left: gpu=3",
            "c < right: gpu=5",
        ],
        charged: &["a: gpu=3"],
        // `left` keeps 4 of its 5 local, and 3 are in use.
        expect: &[
            ("a", "gpu", 7, 10, 1),
            ("b", "gpu", 7, 10, 0),
            ("c", "gpu", 6, 6, 0),
            ("root", "gpu", 6, 6, 0),
        ],
    },
    Case {
        name: "nested: each level keeps its own",
        queues: &[
            "root: gpu=1",
            "mid < root: gpu=2-1",
            "a < mid: gpu=4-2",
            "b < root: gpu=1",
        ],
        charged: &["a: gpu=2"],
        // `a` keeps 2 and lends 2. `mid` has 4, keeps 3 and lends 1. The root has 3.
        expect: &[
            ("a", "gpu", 6, 8, 0),
            ("mid", "gpu", 6, 6, 0),
            ("b", "gpu", 3, 3, 0),
        ],
    },
    Case {
        name: "a quota lowered below usage leaves a debt",
        queues: &["c", "a < c: gpu=2", "b < c: gpu=1"],
        charged: &["a: gpu=6"],
        // `b` keeps no local quota and has no usage, so it owes no quota.
        expect: &[
            ("a", "gpu", -3, 3, 4),
            ("b", "gpu", 0, 3, 0),
            ("c", "gpu", -3, 3, 3),
        ],
    },
    Case {
        // Kueue would give `b` 4 - 6 = -2 of the 4 that it keeps.
        name: "unlike Kueue: another's debt never eats what a queue keeps",
        queues: &["c:", "a < c: gpu=2", "b < c: gpu=4-0"],
        charged: &["a: gpu=8"],
        expect: &[("a", "gpu", -6, 2, 6), ("b", "gpu", 4, 6, 0)],
    },
    Case {
        name: "unlike Kueue: nor what a parent keeps",
        queues: &["c:", "p < c: gpu=0-0", "a < c: gpu=2", "b < p: gpu=4"],
        charged: &["a: gpu=8", "b: gpu=1"],
        expect: &[("b", "gpu", 3, 6, 0), ("p", "gpu", 3, 6, 0)],
    },
    Case {
        name: "who is beyond what it keeps feels the debt, as in Kueue",
        queues: &["c:", "a < c: gpu=2", "b < c: gpu=4-1"],
        charged: &["a: gpu=8", "b: gpu=4"],
        expect: &[("b", "gpu", -6, 6, 0)],
    },
];

#[test]
fn quota_cases_match_the_table() {
    for case in CASES {
        let mut tree = tree(case.queues);
        for charge in case.charged {
            tree.charge_queue(charge);
        }
        for (queue, resource, available, ever, borrowed) in case.expect {
            let at = tree.queue_idx(queue);
            let found = (
                tree.available(at, flavor_resource(resource)),
                tree.available_when_empty(at, flavor_resource(resource)),
                tree.borrowed_amount(queue, resource),
            );
            let expected = (Some(*available), Some(*ever), *borrowed);
            assert_eq!(found, expected, "{}: {queue} {resource}", case.name);
        }
    }
}
