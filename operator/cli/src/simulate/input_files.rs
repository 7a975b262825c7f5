//! Reads the files of a simulation, object by object, and collects their problems.

use std::path::PathBuf;

use trellis_api::document::Problem;
use trellis_simulate::scenario::{KIND, Scenario};

use crate::files::objects::read_file_objects;
use crate::files::source_object::SourceObject;

/// The content of the files.
#[derive(Default)]
pub(super) struct SimulationFiles {
    pub(super) scenarios: Vec<(Scenario, SourceObject)>,
    /// The initial objects, in the order of the files.
    pub(super) objects: Vec<SourceObject>,
    pub(super) problems: Vec<Problem>,
}

impl SimulationFiles {
    /// Reads all files, even if some have problems.
    pub(super) fn read(paths: &[PathBuf]) -> Self {
        let mut files = Self::default();
        for found in paths.iter().flat_map(|path| read_file_objects(path)) {
            match found {
                Ok(source) => files.add_source(source),
                Err(problem) => files.problems.push(problem),
            }
        }
        files
    }

    fn add_source(&mut self, source: SourceObject) {
        if !source.is_kind(KIND.1) {
            self.objects.push(source);
            return;
        }
        match source.document.decode_valid::<Scenario>() {
            Ok(scenario) => self.scenarios.push((scenario, source)),
            Err(problems) => self.problems.extend(source.to_problems(problems)),
        }
    }
}
