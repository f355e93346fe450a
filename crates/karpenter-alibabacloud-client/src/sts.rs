//! STS, Security Token Service: who the credentials belong to. Credentials themselves are fetched where they are kept.
#![expect(missing_docs, reason = "fields have the cloud's names and meaning")]

use serde::{Deserialize, Serialize};

use crate::operation::operation;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GetCallerIdentity {}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct GetCallerIdentityAnswer {
    pub account_id: String,
    pub arn: String,
}

operation!(GetCallerIdentity -> GetCallerIdentityAnswer, Sts, "sts:GetCallerIdentity");
