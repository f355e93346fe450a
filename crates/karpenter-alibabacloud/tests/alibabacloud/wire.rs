//! One life of a machine over a real socket, with a role taken on by RRSA: signed here, verified by the simulated cloud.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use karpenter_alibabacloud::refresh::Part;
use karpenter_alibabacloud::{AlibabaCloud, Settings};
use karpenter_alibabacloud_client::{Client, Config, HttpTransport, Source};
use karpenter_environment::SystemEnvironment;
use karpenter_provider::{LaunchError, Provider as _, Termination};
use karpenter_simcloud_alibabacloud::{AUDIENCE, CONTROLLER_ROLE, Policy, Service, Times, World};
use serde_json::json;

use crate::cloud::{CAPACITY, CLUSTER, REGION, TYPE, claim, recorded, resolved_class, wants};

/// A token as the API server would project it for the controller's service account.
fn token(world: &World) -> String {
    let role = &world.roles[CONTROLLER_ROLE];
    let expires = Timestamp::now() + SignedDuration::from_hours(1);
    let claims = json!({
        "iss": world.issuer(CLUSTER), "aud": [AUDIENCE], "exp": expires.as_second(), "sub": role.subject,
    });
    format!("{}.{}.signature", URL_SAFE_NO_PAD.encode("{}"), URL_SAFE_NO_PAD.encode(claims.to_string()))
}

#[tokio::test]
async fn a_machine_lives_and_ends_with_a_role_whose_keys_expire_and_whose_policy_changes() {
    let service = Service::new(World::standard(REGION, CLUSTER), Arc::new(SystemEnvironment));
    let server = service.serve(0).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let token_file = folder.path().join("token");
    let (role_arn, provider_arn, text) = service.change(|world| {
        world.times = Times::at_once();
        (world.role_arn(CONTROLLER_ROLE), world.oidc_provider_arn(CLUSTER), token(world))
    });
    std::fs::write(&token_file, text).unwrap();
    let source =
        Source::Oidc { role_arn, provider_arn, token_file, session_name: "karpenter-controller".to_owned() };
    let config = Config::at(&server.url(), REGION, source);
    let client =
        Client::new(config, Arc::new(HttpTransport::new(None).unwrap()), Arc::new(SystemEnvironment));
    let provider =
        AlibabaCloud::new(client, Settings { cluster_id: Some(CLUSTER.to_owned()), ..Settings::default() });
    provider.classes().put(resolved_class(&service, &json!({"metadataOptions": {"httpTokens": "required"}})));
    for part in [Part::Types, Part::Stock] {
        assert!(provider.refresh().part(part).await);
    }

    // The keys of the session expire: new ones are fetched, and the launch goes through.
    let past = Timestamp::now() - SignedDuration::from_secs(1);
    service.change(|world| {
        world.keys.values_mut().filter(|key| key.role.is_some()).for_each(|key| key.expires = Some(past));
    });
    let wanted = wants(&[(TYPE, &["ecs.g7.large"]), (CAPACITY, &["on-demand"])]);
    let first = claim("a", Timestamp::now() + SignedDuration::from_secs(1), &wanted);
    let machine = provider.launch(Arc::new(first.clone())).await.unwrap();
    assert_eq!(service.change(|world| world.records.count("AssumeRoleWithOIDC").total), 2);

    // The policy is narrowed: the launch says which right is missing, and goes through once it is back.
    let narrow =
        |policy| service.change(|world| world.roles.get_mut(CONTROLLER_ROLE).unwrap().policy = policy);
    narrow(Some(Policy::allowing([
        "ecs:DescribeInstances",
        "ecs:DeleteInstances",
        "cs:DescribeClusterAttachScripts",
    ])));
    let second = claim("b", Timestamp::now() + SignedDuration::from_secs(1), &wanted);
    let error = provider.launch(Arc::new(second.clone())).await.unwrap_err();
    let LaunchError::Failed { reason, message } = error else { panic!("{error:?}") };
    assert_eq!(reason, "Denied");
    assert!(message.contains("ecs:RunInstances"), "{message}");
    narrow(None);
    let other = provider.launch(Arc::new(second.clone())).await.unwrap();
    assert_eq!(provider.list().await.unwrap().len(), 2);

    for (claim, machine) in [(first, machine), (second, other)] {
        let claim = Arc::new(recorded(&claim, &machine));
        let gone = async { while provider.terminate(Arc::clone(&claim)).await != Ok(Termination::Gone) {} };
        tokio::time::timeout(Duration::from_secs(30), gone).await.unwrap();
    }
    assert!(service.change(|world| world.instances.is_empty()));
}
