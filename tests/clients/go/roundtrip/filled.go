package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/equality"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/randfill"
)

const maxDepth = 12

// fill prints objects of each kind of a stable version, filled at random.
func fill(seed int64, count int) error {
	filler := fuzzer.FuzzerFor(fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, valueFuncs), rand.NewSource(seed), codecs).MaxDepth(maxDepth)
	output := bufio.NewWriter(os.Stdout)
	defer output.Flush()
	for _, kind := range filledKinds() {
		for range count {
			object, err := kinds.New(kind)
			if err != nil {
				return err
			}
			filler.Fill(object)
			object.GetObjectKind().SetGroupVersionKind(kind)
			if err := printObject(output, kind, object); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
		}
	}
	return nil
}

// filledKinds returns the kinds of objects; the options of requests are in every version, and are not listed.
func filledKinds() []schema.GroupVersionKind {
	var found []schema.GroupVersionKind
	for kind := range kinds.AllKnownTypes() {
		isStable := kind.Version == "v1" || kind.Group == "metrics.k8s.io"
		isOption := strings.HasSuffix(kind.Kind, "Options") && kind.Kind != "DeleteOptions"
		if isStable && !isOption && kind.Kind != "WatchEvent" && kind.Group != "meta.k8s.io" {
			found = append(found, kind)
		}
	}
	slices.SortFunc(found, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return found
}

func printObject(output io.Writer, kind schema.GroupVersionKind, object runtime.Object) error {
	asJSON, err := json.Marshal(object)
	if err != nil {
		return err
	}
	asProtobuf, err := encodeProtobuf(object)
	if err != nil {
		return err
	}
	version, name := kind.ToAPIVersionAndKind()
	return json.NewEncoder(output).Encode(line{version, name, asJSON, asProtobuf})
}

// compareLines reads lines, and returns an error if the two representations of one of them differ.
func compareLines() error {
	decoder := json.NewDecoder(os.Stdin)
	compared, failed := 0, 0
	for {
		var each line
		if err := decoder.Decode(&each); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		compared++
		if err := compareBodies(each.JSON, each.Protobuf); err != nil {
			failed++
			fmt.Printf("%s %s: %v\n", each.APIVersion, each.Kind, err)
		}
	}
	fmt.Printf("%d objects compared, %d differ\n", compared, failed)
	if failed > 0 || compared == 0 {
		return errors.New("the representations differ")
	}
	return nil
}

func compareBodies(asJSON, asProtobuf []byte) error {
	first, err := decode(asJSON)
	if err != nil {
		return fmt.Errorf("JSON: %w", err)
	}
	second, err := decode(asProtobuf)
	if err != nil {
		return fmt.Errorf("protobuf: %w", err)
	}
	second.GetObjectKind().SetGroupVersionKind(first.GetObjectKind().GroupVersionKind())
	clearItemTypes(first)
	clearItemTypes(second)
	if equality.Semantic.DeepEqual(first, second) {
		return nil
	}
	one, _ := json.Marshal(first)
	other, _ := json.Marshal(second)
	return fmt.Errorf("not equal:\n  %s\n  %s", one, other)
}

// clearItemTypes removes what only JSON says: the type of each item of a list.
func clearItemTypes(object runtime.Object) {
	_ = eachItem(object, func(item runtime.Object) error {
		item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		return nil
	})
}

// valueFuncs fill types whose values do not follow from their fields.
func valueFuncs(serializer.CodecFactory) []any {
	text := func(c randfill.Continue) []byte {
		encoded, _ := json.Marshal(map[string]any{"number": c.Uint32(), "list": []int{1, 2}, "float": 1.5})
		return encoded
	}
	moment := func(c randfill.Continue) time.Time {
		return time.Unix(int64(c.Uint32()), int64(c.Intn(1e6))*1000).UTC()
	}
	return []any{
		func(raw *runtime.RawExtension, c randfill.Continue) { raw.Raw = text(c) },
		func(raw *extensionsv1.JSON, c randfill.Continue) { raw.Raw = text(c) },
		func(raw *metav1.FieldsV1, c randfill.Continue) { raw.Raw = text(c) },
		func(at *metav1.Time, c randfill.Continue) { at.Time = moment(c).Truncate(time.Second) },
		func(at *metav1.MicroTime, c randfill.Continue) { at.Time = moment(c) },
		func(event *corev1.EventSeries, c randfill.Continue) {
			event.Count, event.LastObservedTime = int32(c.Uint32()), metav1.NewMicroTime(moment(c))
		},
		func(union *extensionsv1.JSONSchemaPropsOrBool, c randfill.Continue) {
			union.Allows = c.Bool()
			if union.Allows {
				union.Schema = &extensionsv1.JSONSchemaProps{Type: c.String(0)}
			}
		},
		func(union *extensionsv1.JSONSchemaPropsOrArray, c randfill.Continue) {
			if c.Bool() {
				union.Schema = &extensionsv1.JSONSchemaProps{Type: c.String(0)}
			} else {
				union.JSONSchemas = []extensionsv1.JSONSchemaProps{{Type: c.String(0)}, {}}
			}
		},
		func(union *extensionsv1.JSONSchemaPropsOrStringArray, c randfill.Continue) {
			if c.Bool() {
				union.Schema = &extensionsv1.JSONSchemaProps{Type: c.String(0)}
			} else {
				union.Property = []string{c.String(0), ""}
			}
		},
	}
}
