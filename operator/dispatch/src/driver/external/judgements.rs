//! Policy decisions on external pods. The scheduler's loop evaluates no policy. It reads the
//! decision, and looks at a unit again once a decision exists.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use trellis_gang::key::Key;
use trellis_policies::cedar::{ExternalPodsQuery, Policies};

use crate::context::Context;
use crate::external_request::PodsVerdict;

/// Policy decisions by unit. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct PodsJudgements {
    units: Arc<Mutex<HashMap<Key, PodsJudgement>>>,
    /// Tests of the scheduler's steps evaluate policies in place.
    #[cfg(test)]
    pub(super) evaluates_inline: bool,
}

#[derive(Debug)]
struct PodsJudgement {
    question: ExternalPodsQuery,
    /// Version of the policies that decide the question.
    version: String,
    /// None: policies are being evaluated.
    verdict: PodsVerdict,
}

impl PodsJudgement {
    fn answers(&self, question: &ExternalPodsQuery, version: &str) -> bool {
        self.question == *question && self.version == version
    }
}

impl PodsJudgements {
    /// Returns the decision of the current policies. None: they have not decided yet. The unit is
    /// looked at again after their decision.
    pub(super) fn judge(
        &self,
        context: &Arc<Context>,
        unit: &Key,
        question: ExternalPodsQuery,
    ) -> PodsVerdict {
        let policies = context.cache.policies.active();
        let loaded = policies.filter(|policies| policies.is_loaded(&unit.namespace));
        let Some(policies) = loaded else {
            // Without loaded policies, the answer is fixed and needs no evaluation.
            return Some(question.decide(None));
        };
        #[cfg(test)]
        if self.evaluates_inline {
            return Some(question.decide(Some(&policies)));
        }
        let version = policies.version(&unit.namespace);
        if let Some(known) = self.units.lock().get(unit)
            && known.answers(&question, &version)
        {
            return known.verdict.clone();
        }
        self.start_evaluation(context, unit, question, policies, version);
        None
    }

    fn start_evaluation(
        &self,
        context: &Arc<Context>,
        unit: &Key,
        question: ExternalPodsQuery,
        policies: Arc<Policies>,
        version: String,
    ) {
        let Some(mut turn) = context.take_turn(unit) else {
            return;
        };
        let judgement = PodsJudgement {
            question: question.clone(),
            version: version.clone(),
            verdict: None,
        };
        self.units.lock().insert(unit.clone(), judgement);
        let (units, judged_unit) = (self.units.clone(), unit.clone());
        let decide = move |policies: Option<Arc<Policies>>| {
            let judged = question.decide(policies.as_deref());
            let mut units = units.lock();
            let unit = units.get_mut(&judged_unit);
            // The unit may have a different question by now.
            if let Some(unit) = unit.filter(|unit| unit.answers(&question, &version)) {
                unit.verdict = Some(judged);
            }
        };
        let (judgements, unit) = (self.clone(), unit.clone());
        tokio::spawn(async move {
            if !turn.evaluate(Some(policies), decide).await {
                judgements.forget(&unit);
            }
        });
    }

    /// Forgets the decision of a unit that is gone or placed.
    pub(super) fn forget(&self, unit: &Key) {
        self.units.lock().remove(unit);
    }
}
