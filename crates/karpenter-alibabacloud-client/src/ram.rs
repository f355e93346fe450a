//! RAM: the role instances run with.
#![expect(missing_docs, reason = "fields have the cloud's names and meaning")]

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::operation::operation;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct GetRole {
    pub role_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct GetRoleAnswer {
    pub role: Role,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Role {
    pub role_name: Option<String>,
    pub arn: Option<String>,
    /// JSON as text.
    pub assume_role_policy_document: Option<String>,
}

impl Role {
    /// Whether ECS instances may take it on.
    pub fn trusts_ecs(&self) -> bool {
        let Some(text) = &self.assume_role_policy_document else { return false };
        let Ok(document) = serde_json::from_str::<Value>(text) else { return false };
        let statements = document["Statement"].as_array().into_iter().flatten();
        statements.filter(|statement| statement["Effect"] != "Deny").any(|statement| {
            match &statement["Principal"]["Service"] {
                Value::String(service) => service == "ecs.aliyuncs.com",
                Value::Array(services) => services.iter().any(|service| service == "ecs.aliyuncs.com"),
                _ => false,
            }
        })
    }
}

operation!(GetRole -> GetRoleAnswer, Ram, "ram:GetRole");
