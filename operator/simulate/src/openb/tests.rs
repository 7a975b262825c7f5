//! Small workloads.

use std::io::Write;

use super::arrivals::draw_arrivals;
use super::*;
use crate::csv_table::{CsvTable, TableError};

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\n\
    a,64000,262144,2,P100\n\
    b,96000,393216,8,G2\n";

const PODS: &str = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n\
    p2,8000,1024,1,460,,LS\n\
    p1,4000,1024,2,1000,G2|P100,LS\n\
    p0,4000,1024,0,1000,,BE\n";

fn table(text: &str) -> CsvTable {
    CsvTable::read(text.as_bytes()).unwrap()
}

fn trace(pods: &str) -> Result<OpenbTrace, TableError> {
    OpenbTrace::read(&table(NODES), &table(pods))
}

#[test]
fn columns_are_found_by_name_and_pods_sorted() {
    let read = trace(PODS).unwrap();
    assert_eq!(read.capacity(), 10_000);
    let names: Vec<&str> = read.pods.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["p0", "p1", "p2"]);
    let demands: Vec<i64> = read
        .pods
        .iter()
        .map(super::trace::OpenbPod::gpu_demand)
        .collect();
    assert_eq!(demands, [0, 2_000, 460]);
    assert_eq!(read.pods[1].models, ["G2", "P100"]);
    // The multigpu files have five columns, in any order.
    let five = trace("gpu_milli,name,cpu_milli,memory_mib,num_gpu\n460,p2,8000,1024,1\n").unwrap();
    assert_eq!(five.pods[0], read.pods[2]);
}

#[test]
fn gzip_table_equals_plain_table() {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(PODS.as_bytes()).unwrap();
    let packed = packer.finish().unwrap();
    assert_eq!(CsvTable::read(&packed).unwrap(), table(PODS));
    let cut = packed.get(..packed.len() - 12).unwrap();
    assert!(matches!(CsvTable::read(cut), Err(TableError::Gzip(_))));
}

#[test]
fn invalid_values_are_refused_with_their_row() {
    let error = |pods: &str| trace(pods).unwrap_err().to_string();
    assert_eq!(
        error("name,cpu_milli,memory_mib,num_gpu\n"),
        "no column \"gpu_milli\" in the header"
    );
    let head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n";
    assert_eq!(error(head), "contains no job: no row is below the header");
    let without_nodes = OpenbTrace::read(&table(NODES.lines().next().unwrap()), &table(PODS));
    assert!(matches!(without_nodes, Err(TableError::Empty("node"))));
    assert_eq!(
        error(&format!("{head}p,1,1,1,1000\nq,-1,1,1,1000\n")),
        "row 2, column \"cpu_milli\": \"-1\" is not a whole number of 0 or more"
    );
    assert_eq!(
        error(&format!("{head}p,1,1,2,500\n")),
        "row 1, column \"gpu_milli\": 500 is out of range"
    );
    // Pods would arrive until they have requested all these GPUs.
    let huge = format!("{NODES}c,1,1,{},G2\n", i64::MAX);
    let read = OpenbTrace::read(&table(&huge), &table(PODS));
    assert_eq!(
        read.map(|trace| trace.capacity())
            .map_err(|e| e.to_string()),
        Err(
            "row 3, column \"gpu\": 9223372036854775807 is too large: write at most 1024"
                .to_owned()
        )
    );
}

#[test]
fn arrivals_reach_the_requested_load() {
    let trace = trace(PODS).unwrap();
    for load in [0.2, 1.0, 1.3] {
        let pods = draw_arrivals(&trace, load, 42);
        let sum: i64 = pods.iter().map(|p| p.gpu_demand()).sum();
        let off = sum as f64 - load * 10_000.0;
        assert!(off.abs() <= 2_000.0, "{load}: {sum}");
    }
}

#[test]
fn equal_seeds_give_equal_results_without_overbooking() {
    let trace = trace(PODS).unwrap();
    let end = run_trace(&trace, 1.3, 42);
    assert_eq!(end, run_trace(&trace, 1.3, 42));
    assert!(end.placed < end.jobs, "not all arriving pods fit");
    assert!(end.allocated_gpu_percent <= 100.0 && end.allocated_gpu_percent > 50.0);
    assert!(end.arrived_gpu_percent >= Some(130.0));
    assert_eq!(end.mean_wait_seconds, None);
}

#[test]
fn pod_with_an_unknown_model_is_never_placed() {
    let pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,1,1,1,1000,H100\n";
    let end = run_trace(&trace(pods).unwrap(), 1.0, 42);
    assert_eq!((end.placed, end.jobs), (0, 10));
}
