// Command facts prints what the Go types of Kubernetes say about its built-in kinds, one type per line:
//
//	core.v1.Container name:s#1 image:s#2? ports:[core.v1.ContainerPort]#6?@map(containerPort,protocol)$merge(containerPort) …
//
// A field has its JSON name, its type, `#` and its protobuf number, and marks: `?` an empty value is left out (a
// struct never is), `!` a zero value is left out, `@` how lists and maps merge in server-side apply, `$` how they merge in a strategic merge patch, `=` its default.
// `...` instead of a name stands for the fields of an embedded struct. Types: s string, b bool, i32 and so on,
// `*T` pointer, `[T]` list, `{T}` map with string keys, lower-case words for types with a wire form of their own;
// `/v1.Name` follows the scalars that have a Go type of their own. A type's own mark stands after its name.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

// groupVersions are the ones whose kinds are printed, with the group's name in the first column of `kind` lines.
var groupVersions = []string{
	"v1", "apps/v1", "batch/v1", "policy/v1", "autoscaling/v2", "networking.k8s.io/v1", "discovery.k8s.io/v1",
	"storage.k8s.io/v1", "scheduling.k8s.io/v1", "coordination.k8s.io/v1", "resource.k8s.io/v1",
	"rbac.authorization.k8s.io/v1", "events.k8s.io/v1", "admissionregistration.k8s.io/v1", "node.k8s.io/v1",
	"authentication.k8s.io/v1", "authorization.k8s.io/v1",
}

// special types have a JSON form that their Go struct does not show.
var special = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":         "time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":    "microtime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":     "duration",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":     "fields",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":     "quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":   "intstr",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":      "raw",
	apiextensionsPath + ".JSON":                         "json",
	apiextensionsPath + ".JSONSchemaPropsOrArray":       "propsorarray",
	apiextensionsPath + ".JSONSchemaPropsOrBool":        "propsorbool",
	apiextensionsPath + ".JSONSchemaPropsOrStringArray": "propsorstrings",
}

const apiextensionsPath = "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

type printer struct {
	definitions map[string]common.OpenAPIDefinition
	lines       map[string]string
}

func main() {
	p := printer{lines: map[string]string{}}
	p.definitions = openapi.GetOpenAPIDefinitions(func(path string) spec.Ref {
		return spec.MustCreateRef("#/" + path)
	})
	var kinds []string
	add := func(groupVersion, kind string, t reflect.Type) {
		kinds = append(kinds, fmt.Sprintf("kind %s %s %s", groupVersion, kind, p.typeName(t)))
	}
	for _, groupVersion := range groupVersions {
		for gvk, t := range scheme.Scheme.AllKnownTypes() {
			if gvk.GroupVersion().String() == groupVersion && t.PkgPath() != reflect.TypeOf(metav1.Status{}).PkgPath() {
				add(groupVersion, gvk.Kind, t)
			}
		}
	}
	add("apiextensions.k8s.io/v1", "CustomResourceDefinition", reflect.TypeOf(apiextensionsv1.CustomResourceDefinition{}))
	add("apiextensions.k8s.io/v1", "CustomResourceDefinitionList", reflect.TypeOf(apiextensionsv1.CustomResourceDefinitionList{}))
	add("autoscaling/v1", "Scale", reflect.TypeOf(autoscalingv1.Scale{}))
	for _, object := range []any{
		metav1.Status{}, metav1.DeleteOptions{}, metav1.PartialObjectMetadata{}, corev1.Binding{}, policyv1.Eviction{},
		authenticationv1.TokenRequest{}, metav1.WatchEvent{}, metav1.Table{},
	} {
		p.typeName(reflect.TypeOf(object))
	}
	var types []string
	for name := range p.lines {
		types = append(types, name)
	}
	sort.Strings(types)
	sort.Strings(kinds)
	for _, name := range types {
		fmt.Println(p.lines[name])
	}
	for _, kind := range kinds {
		fmt.Println(kind)
	}
}

// typeName names a type and prints its line the first time.
func (p *printer) typeName(t reflect.Type) string {
	if name, found := special[t.PkgPath()+"."+t.Name()]; found {
		return name
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + p.typeName(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[" + p.typeName(t.Elem()) + "]"
	case reflect.Map:
		return "{" + p.typeName(t.Elem()) + "}"
	case reflect.Struct:
		return p.structName(t)
	}
	return scalar(t)
}

func scalar(t reflect.Type) string {
	names := map[reflect.Kind]string{
		reflect.String: "s", reflect.Bool: "b", reflect.Int: "i", reflect.Int32: "i32", reflect.Int64: "i64",
		reflect.Float64: "f64", reflect.Uint32: "u32", reflect.Int16: "i16", reflect.Uint16: "u16", reflect.Interface: "any",
	}
	name, found := names[t.Kind()]
	if !found {
		fmt.Fprintln(os.Stderr, "no name for", t)
		os.Exit(1)
	}
	if t.PkgPath() != "" {
		name += "/" + t.String()
	}
	return name
}

func (p *printer) structName(t reflect.Type) string {
	path := strings.Split(t.PkgPath(), "/")
	name := strings.Join(path[len(path)-2:], ".") + "." + t.Name()
	if _, found := p.lines[name]; found {
		return name
	}
	p.lines[name] = "" // A type may hold itself.
	var definition common.OpenAPIDefinition
	if named, ok := reflect.New(t).Elem().Interface().(interface{ OpenAPIModelName() string }); ok {
		definition = p.definitions[named.OpenAPIModelName()]
	}
	words := []string{name + marks(definition.Schema.Extensions)}
	for index := range t.NumField() {
		if word := p.field(t.Field(index), &definition.Schema); word != "" {
			words = append(words, word)
		}
	}
	p.lines[name] = strings.Join(words, " ")
	return name
}

func (p *printer) field(field reflect.StructField, schema *spec.Schema) string {
	tag, found := field.Tag.Lookup("json")
	if !found || tag == "-" {
		return ""
	}
	name, options, _ := strings.Cut(tag, ",")
	number := ""
	if parts := strings.Split(field.Tag.Get("protobuf"), ","); len(parts) > 1 {
		number = "#" + parts[1]
	}
	typeName := p.typeName(field.Type)
	if field.Anonymous && name == "" {
		return "...:" + typeName + number
	}
	property := schema.Properties[name]
	word := name + ":" + typeName + number
	if strings.Contains(options, "omitempty") {
		word += "?"
	}
	if strings.Contains(options, "omitzero") {
		word += "!"
	}
	word += marks(property.Extensions)
	return word + defaultOf(property.Default)
}

// marks renders how a list or a map merges.
func marks(extensions spec.Extensions) string {
	text := ""
	if kind, found := extensions.GetString("x-kubernetes-list-type"); found {
		text += "@" + kind
		if keys, found := extensions.GetStringSlice("x-kubernetes-list-map-keys"); found {
			text += "(" + strings.Join(keys, ",") + ")"
		}
	} else if kind, found := extensions.GetString("x-kubernetes-map-type"); found {
		text += "@" + kind
	}
	if strategy, found := extensions.GetString("x-kubernetes-patch-strategy"); found {
		key, _ := extensions.GetString("x-kubernetes-patch-merge-key")
		text += "$" + strategy
		if key != "" {
			text += "(" + key + ")"
		}
	}
	return text
}

// defaultOf renders a default, unless it is what the Go type is anyway.
func defaultOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil || value == nil {
		return ""
	}
	switch string(text) {
	case `""`, "0", "false", "{}":
		return ""
	}
	return "=" + string(text)
}
