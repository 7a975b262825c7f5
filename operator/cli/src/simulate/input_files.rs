//! Reads the files of a simulation, object by object, and collects their problems.

use std::path::PathBuf;

use trellis_api::document::{self, Problem};

use crate::plan::input;
use crate::source_object::SourceObject;
use trellis_simulate::scenario::{KIND, Scenario};

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
        for path in paths {
            let file = input::display_name(path);
            match input::read_text(path) {
                Ok(text) => files.add_text(&text, &file),
                Err(error) => {
                    let problem = Problem::for_file(format!("cannot be read: {error}"));
                    files.problems.push(problem.with_file(file));
                }
            }
        }
        files
    }

    fn add_text(&mut self, text: &str, file: &str) {
        for found in document::read(text) {
            let document = match found {
                Ok(document) => document,
                Err(problem) => {
                    self.problems.push(problem.with_file(file));
                    continue;
                }
            };
            let source = SourceObject {
                document,
                file: file.to_owned(),
            };
            if !source.is_kind(KIND.1) {
                self.objects.push(source);
                continue;
            }
            match source.document.decode_valid::<Scenario>() {
                Ok(scenario) => self.scenarios.push((scenario, source)),
                Err(problems) => self.problems.extend(source.to_problems(problems)),
            }
        }
    }
}
