// The program roundtrip compares the protobuf and the JSON of objects.
//
//	roundtrip fill    prints an object of each kind, filled at random, in JSON and in protobuf
//	roundtrip compare reads such lines, and prints those whose JSON and protobuf differ
//	roundtrip served  lists every kind that an API server serves, in JSON and in protobuf, and sends each object back
package main

import (
	"flag"
	"fmt"
	"os"

	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// line is an object in both representations.
type line struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	JSON       []byte `json:"json"`
	Protobuf   []byte `json:"protobuf"`
}

var (
	kinds  = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(kinds)
)

func main() {
	seed := flag.Int64("seed", 1, "seed of the random values")
	count := flag.Int("count", 3, "objects of each kind")
	flag.Parse()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, extensionsv1.AddToScheme, metricsv1beta1.AddToScheme} {
		if err := add(kinds); err != nil {
			fail(err)
		}
	}
	metav1.AddToGroupVersion(kinds, schema.GroupVersion{Version: "v1"})
	var err error
	switch flag.Arg(0) {
	case "fill":
		err = fill(*seed, *count)
	case "compare":
		err = compareLines()
	case "served":
		err = compareServed()
	default:
		err = fmt.Errorf("usage: roundtrip [-seed N] [-count N] fill|compare|served")
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(1)
}

func decode(body []byte) (runtime.Object, error) {
	object, _, err := codecs.UniversalDeserializer().Decode(body, nil, nil)
	return object, err
}

func encodeProtobuf(object runtime.Object) ([]byte, error) {
	return runtime.Encode(protobuf.NewSerializer(kinds, kinds), object)
}
