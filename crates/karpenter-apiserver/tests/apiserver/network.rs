//! The server on TCP with TLS, as a client with the kubeconfig sees it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use karpenter_apiserver::serve::{Identity, kubeconfig, serve};
use karpenter_apiserver::{ApiServer, Options, SystemEnvironment, User};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn a_kubeconfig_connects_over_tls_and_a_wrong_token_does_not() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let identity = Identity::generate(&["127.0.0.1".to_owned()]).unwrap();
    let mut options = Options { environment: Arc::new(SystemEnvironment), ..Options::default() };
    options.tokens.insert("secret".into(), User::admin());
    let server = ApiServer::new(options);
    let right = kubeconfig(address, &identity, Some("secret"));
    let wrong = kubeconfig(address, &identity, Some("guess"));
    let exchange = async {
        let namespaces: Api<Namespace> = Api::all(client(&right).await);
        let names = namespaces.list(&ListParams::default()).await.unwrap();
        assert!(names.iter().any(|namespace| namespace.metadata.name.as_deref() == Some("default")));
        let namespaces: Api<Namespace> = Api::all(client(&wrong).await);
        let (code, ..) = crate::world::refused(namespaces.list(&ListParams::default()).await);
        assert_eq!(code, 401);
    };
    tokio::select! {
        outcome = serve(server, listener, &identity) => panic!("the server stopped: {outcome:?}"),
        () = exchange => {}
    }
}
