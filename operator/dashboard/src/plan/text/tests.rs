use super::*;

const REST: &str = "spec: {taskGroups: [{name: worker, replicas: 1, image: a.example/train:1, resources: {limits: {cpu: 1, memory: 1Gi}}}]}";

fn job(metadata: &str) -> String {
    format!(
        "apiVersion: trellis.dev/v1alpha1\nkind: TrainingJob\nmetadata: {{{metadata}}}\n{REST}\n"
    )
}

fn texts(documents: &[String]) -> String {
    documents.join("---\n")
}

/// Returns line, field and message of each problem.
fn problems(text: &str, namespace: Option<&str>) -> Vec<(usize, String, String)> {
    let problems = PlanText::read(text, namespace).unwrap_err().into_iter();
    problems.map(|p| (p.line, p.field, p.message)).collect()
}

#[test]
fn jobs_are_grouped_by_namespace_in_the_order_of_the_text() {
    let text = texts(&[
        job("name: a, namespace: ml"),
        job("name: b"),
        job("generateName: c-, namespace: ml"),
    ]);
    let read = PlanText::read(&text, Some("team")).unwrap();
    let groups: Vec<_> = read
        .groups
        .iter()
        .map(|group| {
            let places: Vec<usize> = group.jobs.iter().map(|(place, _)| *place).collect();
            (group.namespace.as_str(), places)
        })
        .collect();
    assert_eq!(groups, [("ml", vec![0, 2]), ("team", vec![1])]);
    let (_, sent) = &read.groups[1].jobs[0];
    assert_eq!(sent["metadata"]["namespace"], "team");
    assert_eq!(sent["kind"], "TrainingJob");
    assert_eq!(sent["apiVersion"], "trellis.dev/v1alpha1");
    assert_eq!(sent["spec"]["taskGroups"][0]["name"], "worker");
    assert!(read.notes[0].contains("planned apart"), "{:?}", read.notes);
    assert!(read.notes[1].starts_with("TrainingJob \"b\" names no namespace"));
}

#[test]
fn jobs_of_one_namespace_have_no_note() {
    let text = texts(&[job("name: a"), job("name: b, namespace: team")]);
    let read = PlanText::read(&text, Some("team")).unwrap();
    assert_eq!((read.groups.len(), read.notes), (1, Vec::new()));
}

#[test]
fn all_problems_of_a_text_are_found_at_once() {
    let early = job("name: a").replace("trellis.dev/v1alpha1", "trellis.dev/v1");
    let typo = job("name: a").replace("TrainingJob", "TrainingJobs");
    let zero = job("name: zero, namespace: team").replace("replicas: 1", "replicas: 0");
    let text = texts(&[
        early,
        typo,
        zero,
        "a: [\n".to_owned(),
        job("name: nowhere"),
        job("name: twice, namespace: team"),
        job("name: twice, namespace: team"),
    ]);
    let found = problems(&text, None);
    let places: Vec<_> = found
        .iter()
        .map(|(line, field, _)| (*line, field.as_str()))
        .collect();
    assert_eq!(places[0], (1, "apiVersion"));
    assert_eq!(places[1], (7, "kind"));
    assert_eq!(places[2], (14, "spec.taskGroups[0].replicas"));
    assert_eq!(places[4], (20, "metadata.namespace"), "{found:?}");
    assert_eq!(places[5], (30, "metadata.name"));
    assert_eq!(found.len(), 6, "{found:?}");
    assert!(found[4].2.starts_with("is missing"), "{found:?}");
    assert!(found[5].2.contains("given twice, before at line 25"));
}

#[test]
fn problem_has_a_snippet() {
    let problems = PlanText::read(&job("name: Large"), Some("team")).unwrap_err();
    assert!(problems[0].snippet.contains("name: Large"));
}

#[test]
fn other_objects_have_one_note_for_each_kind() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n".to_owned();
    let queue =
        "apiVersion: trellis.dev/v1alpha1\nkind: TrainingQueue\nmetadata: {name: a}\n".to_owned();
    let volcano =
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\n".to_owned();
    let text = texts(&[job("name: a"), node.clone(), node, queue, volcano]);
    let read = PlanText::read(&text, Some("team")).unwrap();
    assert_eq!(
        read.notes,
        [
            "line 6: Node is ignored: the page plans TrainingJobs; with other objects, use `trellis plan`",
            "line 14: TrainingQueue is ignored: the page plans TrainingJobs; with other objects, use `trellis plan`",
            "line 18: Job of batch.volcano.sh/v1alpha1 is ignored: convert it with `trellis import`",
        ]
    );
}

#[test]
fn text_without_a_job_is_a_problem() {
    let found = problems("", Some("team"));
    assert_eq!(
        found[0].2,
        "contains no TrainingJob: write one, such as those in examples/"
    );
    assert_eq!(found[0].0, 0);
    let volcano = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\n";
    let found = problems(volcano, Some("team"));
    assert_eq!(
        found[0].2,
        "contains no TrainingJob: convert Job of batch.volcano.sh/v1alpha1 with `trellis import`"
    );
}

#[test]
fn too_many_jobs_or_namespaces_are_one_problem() {
    let jobs: Vec<_> = (0..20).map(|at| job(&format!("name: a-{at}"))).collect();
    let found = problems(&texts(&jobs), Some("team"));
    assert_eq!(found.len(), 1, "{found:?}");
    let (line, _, message) = &found[0];
    assert_eq!(*line, 16 * 5 + 1);
    assert!(message.starts_with("is job 17 of namespace \"team\": a plan has at most 16"));
    let jobs: Vec<_> = (0..12)
        .map(|at| job(&format!("name: a, namespace: team-{at}")))
        .collect();
    let found = problems(&texts(&jobs), None);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].0, 8 * 5 + 3);
    assert!(found[0].2.starts_with("is namespace 9 of the text"));
}
