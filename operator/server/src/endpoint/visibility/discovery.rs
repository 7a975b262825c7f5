//! Discovery documents for kube-apiserver, kubectl and client-go.

use axum::response::Response;
use serde_json::{Map, Value, json};
use trellis_api::visibility::{self, ALL_RESOURCES, GROUP, ServedResource, VERSION};

use super::request::{DiscoveryDocument, DiscoveryPath};
use crate::callers::Failure;

const JSON: &str = "application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns the document at a path.
pub(super) fn discovery_response(path: &DiscoveryPath) -> Result<Response, Failure> {
    let (content_type, document) = match path {
        DiscoveryPath::Groups { aggregated: true } => (AGGREGATED, aggregated_groups()),
        DiscoveryPath::Groups { aggregated: false } => (JSON, groups()),
        DiscoveryPath::Group => (JSON, group(true)),
        DiscoveryPath::Resources => (JSON, resources()),
        DiscoveryPath::OpenApi2 => (JSON, openapi_v2()),
        DiscoveryPath::OpenApi3 => (JSON, openapi_v3_index()),
        DiscoveryPath::Schemas => (JSON, schemas()),
    };
    let text = serde_json::to_vec(&document).map_err(|_| Failure::unavailable())?;
    Ok(super::document_response(DiscoveryDocument {
        content_type,
        text,
    }))
}

fn groups() -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group(false)]})
}

fn group(alone: bool) -> Value {
    let version = json!({"groupVersion": format!("{GROUP}/{VERSION}"), "version": VERSION});
    let (versions, preferred) = (json!([version]), version);
    if alone {
        json!({"kind": "APIGroup", "apiVersion": "v1", "name": GROUP,
            "versions": versions, "preferredVersion": preferred})
    } else {
        json!({"name": GROUP, "versions": versions, "preferredVersion": preferred})
    }
}

fn resources() -> Value {
    let resources: Vec<Value> = ALL_RESOURCES.iter().map(resource).collect();
    json!({"kind": "APIResourceList", "apiVersion": "v1",
        "groupVersion": format!("{GROUP}/{VERSION}"), "resources": resources})
}

fn resource(served: &ServedResource) -> Value {
    json!({
        "name": served.plural, "singularName": served.singular, "namespaced": served.namespaced,
        "kind": served.kind, "verbs": served.verbs, "shortNames": served.short_names,
    })
}

fn aggregated_groups() -> Value {
    let resources = ALL_RESOURCES.iter().map(|served| {
        json!({
            "resource": served.plural, "singularResource": served.singular,
            "responseKind": {"group": GROUP, "version": VERSION, "kind": served.kind},
            "scope": if served.namespaced { "Namespaced" } else { "Cluster" },
            "verbs": served.verbs, "shortNames": served.short_names,
        })
    });
    let resources: Vec<Value> = resources.collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": [{
            "metadata": {"name": GROUP, "creationTimestamp": null},
            "versions": [{"version": VERSION, "freshness": "Current", "resources": resources}],
        }],
    })
}

fn info() -> Value {
    json!({"title": "Trellis visibility", "version": VERSION})
}

fn openapi_v2() -> Value {
    json!({"swagger": "2.0", "info": info(), "paths": {}, "definitions": {}})
}

fn openapi_v3_index() -> Value {
    let path = format!("apis/{GROUP}/{VERSION}");
    // A new version of the program makes clients read the schema again.
    let hash = env!("CARGO_PKG_VERSION");
    json!({"paths": {path.clone(): {"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}}})
}

/// Schemas of all kinds with their paths, for `kubectl explain`.
fn schemas() -> Value {
    let base = format!("/apis/{GROUP}/{VERSION}");
    let (mut paths, mut kinds) = (Map::new(), Map::new());
    for (served, schema) in visibility::schemas() {
        let name = format!("dev.trellis.visibility.{VERSION}.{}", served.kind);
        let here = match served.namespaced {
            true => format!("{base}/namespaces/{{namespace}}/{}", served.plural),
            false => format!("{base}/{}", served.plural),
        };
        let content = json!({"application/json": {"schema":
            {"$ref": format!("#/components/schemas/{name}")}}});
        let operation = |action: &str, code: &str, parameters: &[&str]| {
            let parameters = parameters
                .iter()
                .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string"}}));
            let parameters: Vec<Value> = parameters.collect();
            json!({
                "x-kubernetes-action": action,
                "x-kubernetes-group-version-kind":
                    {"group": GROUP, "version": VERSION, "kind": served.kind},
                "parameters": parameters,
                "responses": {code: {"description": "OK", "content": content}},
            })
        };
        if served.verbs.contains(&"create") {
            let post = operation("post", "201", &["fieldValidation"]);
            paths.insert(here.clone(), json!({"post": post}));
            // kubectl learns from the operation `patch` that `create` takes `fieldValidation`
            // (`supportsQueryParamV3` of k8s.io/cli-runtime). Without it, kubectl lists CRDs first,
            // which most users may not do.
            let patch = operation("patch", "405", &["fieldValidation"]);
            paths.insert(format!("{here}/{{name}}"), json!({"patch": patch}));
        } else {
            let get = operation("get", "200", &[]);
            paths.insert(format!("{here}/{{name}}"), json!({"get": get}));
        }
        kinds.insert(name, schema);
    }
    json!({"openapi": "3.0.0", "info": info(), "paths": paths, "components": {"schemas": kinds}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_served_resource_is_in_each_discovery_document() {
        let (old, new) = (resources(), aggregated_groups());
        let new = &new["items"][0]["versions"][0]["resources"];
        assert_eq!(
            old["resources"].as_array().unwrap().len(),
            ALL_RESOURCES.len()
        );
        for (at, served) in ALL_RESOURCES.iter().enumerate() {
            assert_eq!(old["resources"][at]["name"], served.plural);
            assert_eq!(new[at]["resource"], served.plural);
            let scope = if served.namespaced {
                "Namespaced"
            } else {
                "Cluster"
            };
            assert_eq!(new[at]["scope"], scope);
        }
        assert_eq!(groups()["groups"][0]["name"], GROUP);
        assert_eq!(group(true)["kind"], "APIGroup");
    }
}
