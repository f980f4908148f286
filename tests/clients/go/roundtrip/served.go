package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	asJSON     = runtime.ContentTypeJSON
	asProtobuf = runtime.ContentTypeProtobuf
)

// compareServed lists every kind of an API server in both representations.
func compareServed() error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS = -1
	config.NegotiatedSerializer = codecs.WithoutConversion()
	config.GroupVersion = &schema.GroupVersion{}
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return err
	}
	_, lists, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerGroupsAndResources()
	if err != nil {
		return err
	}
	failed := false
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return err
		}
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") {
				continue
			}
			kind := version.WithKind(resource.Kind)
			count, err := compareKind(client, kind, resource.Name, slices.Contains(resource.Verbs, "update"))
			if err != nil {
				failed = true
				fmt.Printf("FAILED %s: %v\n", kind.GroupVersion().String()+" "+kind.Kind, err)
				continue
			}
			fmt.Printf("ok %s: %d objects\n", kind.GroupVersion().String()+" "+kind.Kind, count)
		}
	}
	if failed {
		return errors.New("the representations differ")
	}
	return nil
}

// compareKind compares the lists of a kind, and sends each object back in protobuf, which must change nothing.
func compareKind(client *rest.RESTClient, kind schema.GroupVersionKind, plural string, isUpdatable bool) (int, error) {
	path := "/apis/" + kind.GroupVersion().String()
	if kind.Group == "" {
		path = "/api/v1"
	}
	if !kinds.Recognizes(kind) {
		return 0, refuseProtobuf(client, path+"/"+plural)
	}
	plain, err := get(client, path+"/"+plural, asJSON)
	if err != nil {
		return 0, err
	}
	encoded, err := get(client, path+"/"+plural, asProtobuf)
	if err != nil {
		return 0, err
	}
	if !bytes.HasPrefix(encoded, []byte("k8s\x00")) {
		return 0, errors.New("the response is not protobuf")
	}
	if kind.Kind != "Node" && kind.Group != "metrics.k8s.io" && kind.Kind != "Lease" { // they change all the time
		if err := compareBodies(plain, encoded); err != nil {
			return 0, err
		}
	}
	list, err := decode(encoded)
	if err != nil {
		return 0, err
	}
	count := 0
	return count, eachItem(list, func(item runtime.Object) error {
		count++
		if !isUpdatable {
			return nil
		}
		item.GetObjectKind().SetGroupVersionKind(kind)
		return sendBack(client, path, plural, item)
	})
}

// refuseProtobuf expects that a custom kind is not served in protobuf.
func refuseProtobuf(client *rest.RESTClient, path string) error {
	_, err := get(client, path, asProtobuf)
	if !apierrors.IsNotAcceptable(err) {
		return fmt.Errorf("protobuf of a custom kind: %v", err)
	}
	return nil
}

func get(client *rest.RESTClient, path, accept string) ([]byte, error) {
	return client.Get().AbsPath(path).SetHeader("Accept", accept).DoRaw(context.Background())
}

func sendBack(client *rest.RESTClient, path, plural string, item runtime.Object) error {
	accessor, err := meta.Accessor(item)
	if err != nil {
		return err
	}
	if accessor.GetNamespace() != "" {
		path += "/namespaces/" + accessor.GetNamespace()
	}
	body, err := encodeProtobuf(item)
	if err != nil {
		return err
	}
	address := path + "/" + plural + "/" + accessor.GetName()
	result := client.Put().AbsPath(address).Param("dryRun", "All").SetHeader("Accept", asProtobuf).
		SetHeader("Content-Type", asProtobuf).Body(body).Do(context.Background())
	if apierrors.IsNotFound(result.Error()) || apierrors.IsConflict(result.Error()) { // changed meanwhile
		return nil
	}
	if result.Error() != nil { // unlike that of Raw, this error has the message of the API server
		return fmt.Errorf("%s: %w", address, result.Error())
	}
	answer, err := result.Raw()
	if err != nil {
		return err
	}
	_, err = decode(answer)
	return err
}

// eachItem calls a function for each item of a list; other objects have none.
func eachItem(list runtime.Object, call func(runtime.Object) error) error {
	if !meta.IsListType(list) {
		return nil
	}
	return meta.EachListItem(list, call)
}
