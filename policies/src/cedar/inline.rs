//! Tests inside a policy object.

use trellis_api::Enforcement;
use trellis_api::job_policy::{ExpectedDecision, PolicyTest};

use super::compile::Compiled;
use super::decision::{Decision, Verdict};
use super::evaluate;
use super::expect::{compare, undecided};
use super::index::{Index, Twice};
use super::object::PolicyObject;
use super::problem::Problem;
use super::request::Posed;
use super::scene::Scene;
use super::schema::Schema;

/// A test that has been run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tested {
    /// Its name.
    pub name: String,
    /// Ids of the policies that decide its request.
    pub policies: Vec<String>,
    /// Problem of a failed test. None: the test passes.
    pub failure: Option<Problem>,
}

impl Tested {
    /// Why it fails, as a problem of its object.
    pub(super) fn problem(self) -> Option<Problem> {
        let failure = self.failure?;
        let message = format!("the test {:?} fails: {}", self.name, failure.message);
        Some(Problem { message, ..failure })
    }
}

/// Runs the tests of an object.
pub(super) fn run(
    schema: &Schema,
    object: &PolicyObject,
    compiled: &Compiled,
) -> Result<Vec<Tested>, Problem> {
    let mut index = Index::default();
    // Tests run against every policy as if it were enforced as Deny.
    let added = index.add(schema, object, Enforcement::Deny, &compiled.policies);
    added.map_err(|Twice(error)| {
        Problem::new("spec.cedar", error, "give each policy another @id")
    })?;
    let tests = object.tests.iter().enumerate();
    let run = tests.map(|(i, test)| {
        let path = format!("spec.tests[{i}]");
        let decided = decide(schema, &index, test, &path);
        let (policies, failure) = match decided {
            Ok(decision) => {
                let came = judge(test, object, &decision);
                let fix = "correct the policies, or what the test expects";
                let failed = |came: String| Problem::new(path, came, fix);
                (decision.policies, came.err().map(failed))
            }
            Err(problem) => (Vec::new(), Some(problem)),
        };
        Tested {
            name: test.name.clone(),
            policies,
            failure,
        }
    });
    Ok(run.collect())
}

fn decide(
    schema: &Schema,
    index: &Index,
    test: &PolicyTest,
    path: &str,
) -> Result<Decision, Problem> {
    let path = format!("{path}.request");
    let posed = Posed::new(&test.request).map_err(|unposed| unposed.at(&path))?;
    let subject = posed.subject();
    let scene = Scene::new(schema, &subject, &posed.about())
        .map_err(|unmade| Problem::new(path, unmade.0, "correct the request"))?;
    Ok(evaluate::decide(
        &[index],
        &subject,
        &scene,
        &posed.ask,
        None,
    ))
}

/// Describes the result if the test expects a different one.
fn judge(test: &PolicyTest, object: &PolicyObject, decision: &Decision) -> Result<(), String> {
    if let Some(why) = decision.why_undecided() {
        return Err(undecided(&why));
    }
    // A namespace's object can only forbid, so its tests expect Allow where it does not forbid.
    let narrows = object.key.namespace.is_some() && decision.verdict == Verdict::NotPermitted;
    let came = match test.decision {
        ExpectedDecision::Abstain => decision.outcome(true),
        _ if narrows => ExpectedDecision::Allow,
        _ => decision.outcome(false),
    };
    let compared = compare(
        (test.decision, test.policies.as_deref()),
        (came, &decision.policies),
    );
    // Explain this case: an author of forbids alone expects a request without a forbid to be
    // allowed.
    let unpermitted = came != test.decision && decision.verdict == Verdict::NotPermitted;
    compared.map_err(|why| match unpermitted {
        true => format!(
            "{why}: no forbid of this object holds, and no permit of it either. A test asks its \
             own object alone; where that leaves it to other policies, expect decision: Abstain"
        ),
        false => why,
    })
}
