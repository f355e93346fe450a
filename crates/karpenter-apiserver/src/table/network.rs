//! The cells of kinds that lead traffic to pods or count it.

use serde_json::{Value, json};

use super::cells::few;
use super::pieces::{count, items, or, size, text};

pub(super) fn service(service: &Value) -> Vec<Value> {
    let spec = &service["spec"];
    let ports = items(&spec["ports"]).map(|port| {
        let protocol = or(&port["protocol"], "TCP");
        match count(&port["nodePort"]) {
            0 => format!("{}/{protocol}", count(&port["port"])),
            node_port => format!("{}:{node_port}/{protocol}", count(&port["port"])),
        }
    });
    let ports = ports.collect::<Vec<_>>().join(",");
    vec![
        json!(text(&spec["type"])),
        json!(or(&spec["clusterIPs"][0], or(&spec["clusterIP"], "<none>"))),
        json!(external_address(service)),
        json!(if ports.is_empty() { "<none>" } else { &ports }),
    ]
}

fn external_address(service: &Value) -> String {
    let spec = &service["spec"];
    let own: Vec<&str> = items(&spec["externalIPs"]).map(text).collect();
    match text(&spec["type"]) {
        "ExternalName" => text(&spec["externalName"]).to_owned(),
        "LoadBalancer" => {
            let balancer = balancer(&service["status"]);
            let all: Vec<&str> =
                [balancer.as_str()].into_iter().filter(|text| !text.is_empty()).chain(own).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        _ if own.is_empty() => "<none>".to_owned(),
        _ => own.join(","),
    }
}

/// The addresses of a load balancer.
fn balancer(status: &Value) -> String {
    let mut addresses: Vec<&str> = items(&status["loadBalancer"]["ingress"])
        .map(|ingress| or(&ingress["ip"], text(&ingress["hostname"])))
        .filter(|address| !address.is_empty())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.join(",")
}

pub(super) fn ingress(ingress: &Value) -> Vec<Value> {
    let spec = &ingress["spec"];
    let hosts: Vec<String> = items(&spec["rules"])
        .map(|rule| text(&rule["host"]).to_owned())
        .filter(|host| !host.is_empty())
        .collect();
    vec![
        json!(or(&spec["ingressClassName"], "<none>")),
        json!(few(&hosts, "*")),
        json!(balancer(&ingress["status"])),
        json!(if size(&spec["tls"]) > 0 { "80, 443" } else { "80" }),
    ]
}

pub(super) fn ingress_class(spec: &Value) -> Vec<Value> {
    let parameters = &spec["parameters"];
    let shown = if parameters.is_object() {
        let kind = text(&parameters["kind"]);
        let kind = match parameters["apiGroup"].as_str() {
            Some(group) => format!("{kind}.{group}"),
            None => kind.to_owned(),
        };
        format!("{kind}/{}", text(&parameters["name"]))
    } else {
        "<none>".to_owned()
    };
    vec![spec["controller"].clone(), json!(shown)]
}

pub(super) fn endpoints(endpoints: &Value) -> String {
    if size(&endpoints["subsets"]) == 0 {
        return "<none>".to_owned();
    }
    let mut all = Vec::new();
    for subset in items(&endpoints["subsets"]) {
        let addresses = || items(&subset["addresses"]).map(|address| text(&address["ip"]));
        if size(&subset["ports"]) == 0 {
            all.extend(addresses().map(str::to_owned));
        }
        for port in items(&subset["ports"]) {
            let port = count(&port["port"]);
            all.extend(addresses().map(|address| {
                if address.contains(':') {
                    format!("[{address}]:{port}")
                } else {
                    format!("{address}:{port}")
                }
            }));
        }
    }
    few(&all, "")
}

pub(super) fn endpoint_slice(slice: &Value) -> Vec<Value> {
    let ports: Vec<String> = items(&slice["ports"])
        .map(|port| {
            port["port"].as_i64().map_or_else(|| or(&port["name"], "*").to_owned(), |port| port.to_string())
        })
        .collect();
    let addresses: Vec<String> = items(&slice["endpoints"])
        .flat_map(|endpoint| items(&endpoint["addresses"]))
        .map(|address| text(address).to_owned())
        .collect();
    vec![json!(text(&slice["addressType"])), json!(few(&ports, "<unset>")), json!(few(&addresses, "<unset>"))]
}

pub(super) fn autoscaler(autoscaler: &Value) -> Vec<Value> {
    const SHOWN: usize = 2;
    let (spec, status) = (&autoscaler["spec"], &autoscaler["status"]);
    let metrics: Vec<String> = items(&spec["metrics"])
        .enumerate()
        .map(|(index, metric)| metric_text(metric, &status["currentMetrics"][index]))
        .collect();
    let targets = match metrics.len() {
        0 => "<none>".to_owned(),
        total if total > SHOWN => format!("{} + {} more...", metrics[..SHOWN].join(", "), total - SHOWN),
        _ => metrics.join(", "),
    };
    let reference = &spec["scaleTargetRef"];
    let least = spec["minReplicas"].as_i64().map_or("<unset>".to_owned(), |least| least.to_string());
    vec![
        json!(format!("{}/{}", text(&reference["kind"]), text(&reference["name"]))),
        json!(targets),
        json!(least),
        json!(count(&spec["maxReplicas"])),
        json!(count(&status["currentReplicas"])),
    ]
}

/// What a metric is and should be.
fn metric_text(metric: &Value, current: &Value) -> String {
    let (source, named) = match text(&metric["type"]) {
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        "External" => ("external", false),
        "Object" => ("object", false),
        "Pods" => ("pods", false),
        _ => return "<unknown type>".to_owned(),
    };
    let (target, now) = (&metric[source]["target"], &current[source]["current"]);
    let percent = |value: &Value, otherwise: &str| {
        value.as_i64().map_or(otherwise.to_owned(), |percent| format!("{percent}%"))
    };
    let averaged = target["averageValue"].is_string();
    let shown = if averaged {
        format!("{}/{}", or(&now["averageValue"], "<unknown>"), text(&target["averageValue"]))
    } else if named {
        format!(
            "{}/{}",
            percent(&now["averageUtilization"], "<unknown>"),
            percent(&target["averageUtilization"], "<auto>")
        )
    } else {
        format!("{}/{}", or(&now["value"], "<unknown>"), text(&target["value"]))
    };
    match source {
        _ if named => format!("{}: {shown}", text(&metric[source]["name"])),
        "external" | "object" if averaged => format!("{shown} (avg)"),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_show_ports_and_addresses() {
        let balanced = json!({
            "spec": {"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"], "ports": [{"port": 80, "nodePort": 30000}]},
            "status": {"loadBalancer": {"ingress": [{"hostname": "b"}, {"ip": "a"}]}},
        });
        assert_eq!(
            service(&balanced),
            [json!("LoadBalancer"), json!("10.0.0.1"), json!("a,b"), json!("80:30000/TCP")]
        );
        let external = json!({"spec": {"type": "ExternalName", "externalName": "x.y"}});
        assert_eq!(service(&external)[1..], [json!("<none>"), json!("x.y"), json!("<none>")]);
    }

    #[test]
    fn metrics_show_what_is_and_what_should_be() {
        let metric =
            json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}});
        assert_eq!(metric_text(&metric, &Value::Null), "cpu: <unknown>/80%");
        let current = json!({"resource": {"current": {"averageUtilization": 12}}});
        assert_eq!(metric_text(&metric, &current), "cpu: 12%/80%");
    }
}
