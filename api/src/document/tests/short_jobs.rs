//! Six common jobs, in their shortest form.

use super::*;

/// A new required field would make these jobs longer.
const JOBS: [(&str, &str); 6] = [
    (
        "one GPU",
        "apiVersion: trellis.dev/v1alpha1
kind: TrainingJob
metadata: {name: job}
spec:
  queueName: research
  taskGroups:
  - name: worker
    gpus: 1
    image: registry.example/train:1.0
    command: [python, train.py]
    resources: {limits: {cpu: 8, memory: 64Gi}}
",
    ),
    (
        "torchrun on 4x8 GPUs, with claims and restarts",
        "apiVersion: trellis.dev/v1alpha1
kind: TrainingJob
metadata: {name: job}
spec:
  framework: PyTorch
  queueName: research
  restart: {limit: 5}
  taskGroups:
  - name: worker
    replicas: 4
    gpus: 8
    image: registry.example/train:1.0
    command: [torchrun, train.py]
    resources: {limits: {cpu: 96, memory: 1000Gi}}
    mounts:
    - {claimName: data, path: /data}
    - {claimName: checkpoints, path: /checkpoints}
",
    ),
    (
        "MPI on 2x8 GPUs",
        "apiVersion: trellis.dev/v1alpha1
kind: TrainingJob
metadata: {name: job}
spec:
  framework: MPI
  queueName: research
  securityContext: {runAsUser: 1000}
  taskGroups:
  - name: launcher
    role: Launcher
    image: registry.example/mpi:1.0
    command: [mpirun, train]
    resources: {limits: {cpu: 1, memory: 1Gi}}
  - name: worker
    replicas: 2
    gpus: 8
    image: registry.example/mpi:1.0
    resources: {limits: {cpu: 96, memory: 1000Gi}}
",
    ),
    (
        "elastic, 2 to 4 pods",
        "apiVersion: trellis.dev/v1alpha1
kind: TrainingJob
metadata: {name: job}
spec:
  framework: PyTorch
  queueName: research
  restart: {limit: 10}
  taskGroups:
  - name: worker
    replicas: 4
    minReplicas: 2
    gpus: 8
    image: registry.example/train:1.0
    command: [torchrun, train.py]
    resources: {limits: {cpu: 96, memory: 1000Gi}}
    mounts:
    - {claimName: checkpoints, path: /checkpoints}
",
    ),
    (
        "prepare, then train",
        "apiVersion: trellis.dev/v1alpha1
kind: TrainingJob
metadata: {name: job}
spec:
  framework: PyTorch
  queueName: research
  taskGroups:
  - name: prepare
    image: registry.example/train:1.0
    command: [python, prepare.py]
    resources: {limits: {cpu: 16, memory: 64Gi}}
    mounts:
    - {claimName: data, path: /data}
  - name: train
    replicas: 2
    gpus: 8
    dependsOn: [{group: prepare, status: Complete}]
    image: registry.example/train:1.0
    command: [torchrun, train.py]
    resources: {limits: {cpu: 96, memory: 1000Gi}}
    mounts:
    - {claimName: data, path: /data}
",
    ),
    (
        "4x8 GPUs in one rack",
        "apiVersion: trellis.dev/v1alpha1
kind: TrainingJob
metadata: {name: job}
spec:
  framework: PyTorch
  queueName: research
  topology: {required: rack}
  taskGroups:
  - name: worker
    replicas: 4
    gpus: 8
    image: registry.example/train:1.0
    command: [torchrun, train.py]
    resources: {limits: {cpu: 96, memory: 1000Gi}}
",
    ),
];

#[test]
fn shortest_usual_jobs_are_valid() {
    for (name, text) in JOBS {
        assert_eq!(problem_rows(text), vec![], "{name}");
    }
}
