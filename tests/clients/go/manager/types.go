package main

import (
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "manager.pliant.test", Version: "v1"}

// Greeting is a custom object; the manager keeps its text in a ConfigMap.
type Greeting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GreetingSpec   `json:"spec,omitempty"`
	Status            GreetingStatus `json:"status,omitempty"`
}

// GreetingSpec is what the user writes.
type GreetingSpec struct {
	Text string `json:"text"`
}

// GreetingStatus is what the manager writes.
type GreetingStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	ConfigMap          string             `json:"configMap,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// GreetingList is a list of greetings.
type GreetingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Greeting `json:"items"`
}

// DeepCopyObject copies a greeting.
func (g *Greeting) DeepCopyObject() runtime.Object { return g.DeepCopy() }

// DeepCopy copies a greeting.
func (g *Greeting) DeepCopy() *Greeting {
	copied := *g
	g.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Status.Conditions = make([]metav1.Condition, len(g.Status.Conditions))
	for number := range g.Status.Conditions {
		g.Status.Conditions[number].DeepCopyInto(&copied.Status.Conditions[number])
	}
	return &copied
}

// DeepCopyObject copies a list of greetings.
func (l *GreetingList) DeepCopyObject() runtime.Object {
	copied := GreetingList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for number := range l.Items {
		copied.Items = append(copied.Items, *l.Items[number].DeepCopy())
	}
	return &copied
}

func addGreetings(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(groupVersion, &Greeting{}, &GreetingList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	return nil
}

func greetingDefinition() *extensionsv1.CustomResourceDefinition {
	preserve := true
	text := extensionsv1.JSONSchemaProps{Type: "string", MinLength: new(int64)}
	spec := extensionsv1.JSONSchemaProps{
		Type: "object", Required: []string{"text"}, Properties: map[string]extensionsv1.JSONSchemaProps{"text": text},
	}
	status := extensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}
	properties := map[string]extensionsv1.JSONSchemaProps{"spec": spec, "status": status}
	return &extensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "greetings." + groupVersion.Group},
		Spec: extensionsv1.CustomResourceDefinitionSpec{
			Group: groupVersion.Group, Scope: extensionsv1.NamespaceScoped,
			Names: extensionsv1.CustomResourceDefinitionNames{Plural: "greetings", Kind: "Greeting", ListKind: "GreetingList"},
			Versions: []extensionsv1.CustomResourceDefinitionVersion{{
				Name: groupVersion.Version, Served: true, Storage: true,
				Schema: &extensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &extensionsv1.JSONSchemaProps{Type: "object", Properties: properties},
				},
				Subresources: &extensionsv1.CustomResourceSubresources{Status: &extensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}
