package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"

	"pliant.local/clients/check"
)

var gadgets = schema.GroupVersionResource{Group: "clientset.pliant.test", Version: "v1", Resource: "gadgets"}

func (c *clients) checkDynamic(ctx context.Context) error {
	if err := c.createGadgetDefinition(ctx); err != nil {
		return err
	}
	client := c.dynamic.Resource(gadgets).Namespace(c.namespace)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(c.dynamic, 0, c.namespace, nil)
	informer := factory.ForResource(gadgets)
	ctx, cancel := context.WithCancel(ctx)
	defer factory.Shutdown()
	defer cancel()
	informer.Informer()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	gadget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "clientset.pliant.test/v1", "kind": "Gadget",
		"metadata": map[string]any{"name": "one"}, "spec": map[string]any{"size": int64(3)},
	}}
	created, err := client.Create(ctx, gadget, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedField(created.Object, "done", "status", "phase"); err != nil {
		return err
	}
	if _, err := client.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
		return err
	}
	merge := []byte(`{"spec": {"size": 5}}`)
	if _, err := client.Patch(ctx, "one", types.MergePatchType, merge, metav1.PatchOptions{}); err != nil {
		return err
	}
	gadget.SetName("two")
	if _, err := client.Apply(ctx, "two", gadget, metav1.ApplyOptions{FieldManager: "dynamic"}); err != nil {
		return err
	}
	err = check.Until(ctx, "the informer has both gadgets", func(context.Context) (bool, error) {
		one, err := informer.Lister().ByNamespace(c.namespace).Get("one")
		if err != nil {
			return false, ignoreNotFound(err)
		}
		size, _, _ := unstructured.NestedInt64(one.(*unstructured.Unstructured).Object, "spec", "size")
		_, err = informer.Lister().ByNamespace(c.namespace).Get("two")
		return size == 5 && err == nil, ignoreNotFound(err)
	})
	if err != nil {
		return err
	}
	if err := client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return err
	}
	definitions := c.extensions.ApiextensionsV1().CustomResourceDefinitions()
	return definitions.Delete(ctx, gadgets.Resource+"."+gadgets.Group, metav1.DeleteOptions{})
}

func (c *clients) createGadgetDefinition(ctx context.Context) error {
	preserve := true
	object := extensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve}
	spec := extensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]extensionsv1.JSONSchemaProps{
		"size": {Type: "integer", Default: &extensionsv1.JSON{Raw: []byte("1")}},
	}}
	properties := map[string]extensionsv1.JSONSchemaProps{"spec": spec, "status": object}
	definition := &extensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: gadgets.Resource + "." + gadgets.Group},
		Spec: extensionsv1.CustomResourceDefinitionSpec{
			Group: gadgets.Group, Scope: extensionsv1.NamespaceScoped,
			Names: extensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Kind: "Gadget"},
			Versions: []extensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema:       &extensionsv1.CustomResourceValidation{OpenAPIV3Schema: &extensionsv1.JSONSchemaProps{Type: "object", Properties: properties}},
				Subresources: &extensionsv1.CustomResourceSubresources{Status: &extensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
	definitions := c.extensions.ApiextensionsV1().CustomResourceDefinitions()
	if _, err := definitions.Create(ctx, definition, metav1.CreateOptions{}); err != nil {
		return err
	}
	return check.Until(ctx, "the definition is established", func(ctx context.Context) (bool, error) {
		got, err := definitions.Get(ctx, definition.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, condition := range got.Status.Conditions {
			if condition.Type == extensionsv1.Established && condition.Status == extensionsv1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	})
}

// checkMetadata lists and watches only the metadata of objects, as the garbage collector does.
func (c *clients) checkMetadata(ctx context.Context) error {
	client := c.metadata.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(c.namespace)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	options := metav1.ListOptions{ResourceVersion: list.ResourceVersion, FieldSelector: "metadata.name=meta"}
	watched, err := client.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer watched.Stop()
	if _, err := c.kube.CoreV1().ConfigMaps(c.namespace).Create(ctx, configMap("meta", "1"), metav1.CreateOptions{}); err != nil {
		return err
	}
	event, err := nextEvent(ctx, watched, watch.Added)
	if err != nil {
		return err
	}
	partial, isPartial := event.Object.(*metav1.PartialObjectMetadata)
	if !isPartial {
		return fmt.Errorf("the event has a %T", event.Object)
	}
	got, err := client.Get(ctx, "meta", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return check.First(
		check.Equal("the UID", partial.UID, got.UID),
		client.Delete(ctx, "meta", metav1.DeleteOptions{}),
	)
}

// checkLeaderElection lets the first of two candidates lead and release, after which the second leads.
func (c *clients) checkLeaderElection(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leaders := make(chan string, 2)
	var candidates sync.WaitGroup
	defer candidates.Wait()
	defer cancel()
	release, first := map[string]context.CancelFunc{}, ""
	for _, name := range []string{"one", "two"} {
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: "election", Namespace: c.namespace},
			Client:     c.kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		}
		own, stop := context.WithCancel(ctx)
		release[name] = stop
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leaders <- name }, OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			return err
		}
		candidates.Go(func() { elector.Run(own) })
		if name == "one" {
			if first, err = nextLeader(leaders); err != nil {
				return err
			}
		}
	}
	if err := c.waitForRenewal(ctx); err != nil {
		return err
	}
	release[first]() // between two renewals: an interrupted one may or may not have changed the lease
	second, err := nextLeader(leaders)
	if err != nil {
		return err
	}
	if second == first {
		return fmt.Errorf("%s leads again after it released the lease", first)
	}
	lease, err := c.kube.CoordinationV1().Leases(c.namespace).Get(ctx, "election", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return check.First(check.Equal("the holder", *lease.Spec.HolderIdentity, second), c.waitForRenewal(ctx))
}

func (c *clients) waitForRenewal(ctx context.Context) error {
	var first *metav1.MicroTime
	return check.Until(ctx, "the lease is renewed", func(ctx context.Context) (bool, error) {
		lease, err := c.kube.CoordinationV1().Leases(c.namespace).Get(ctx, "election", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if first == nil {
			first = lease.Spec.RenewTime
		}
		return !lease.Spec.RenewTime.Equal(first), nil
	})
}

func nextLeader(leaders <-chan string) (string, error) {
	select {
	case name := <-leaders:
		return name, nil
	case <-time.After(check.Limit):
		return "", fmt.Errorf("nobody leads after %s", check.Limit)
	}
}

// checkEvents records events with both recorders, in v1 and in events.k8s.io/v1.
func (c *clients) checkEvents(ctx context.Context) error {
	object, err := c.kube.CoreV1().ConfigMaps(c.namespace).Create(ctx, configMap("subject", ""), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	object.APIVersion, object.Kind = "v1", "ConfigMap"
	core := record.NewBroadcaster(record.WithContext(ctx))
	defer core.Shutdown()
	core.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: c.kube.CoreV1().Events("")})
	core.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "test"}).Event(object, "Normal", "FromCore", "text")
	current := events.NewBroadcaster(&events.EventSinkImpl{Interface: c.kube.EventsV1()})
	defer current.Shutdown()
	if err := current.StartRecordingToSinkWithContext(ctx); err != nil {
		return err
	}
	current.NewRecorder(scheme.Scheme, "test").Eventf(object, nil, "Normal", "FromEvents", "Test", "text %d", 1)
	return check.Until(ctx, "both events are listed", func(ctx context.Context) (bool, error) {
		options := metav1.ListOptions{FieldSelector: "involvedObject.name=subject"}
		list, err := c.kube.CoreV1().Events(c.namespace).List(ctx, options)
		if err != nil {
			return false, err
		}
		reasons := map[string]bool{}
		for _, event := range list.Items {
			reasons[event.Reason] = true
		}
		return reasons["FromCore"] && reasons["FromEvents"], nil
	})
}

func (c *clients) checkReviews(ctx context.Context) error {
	accounts := c.kube.CoreV1().ServiceAccounts(c.namespace)
	seconds := int64(600)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	token, err := accounts.CreateToken(ctx, "default", request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if token.Status.Token == "" || token.Status.ExpirationTimestamp.Before(&metav1.Time{Time: time.Now()}) {
		return fmt.Errorf("no token, or an expired one: %v", token.Status)
	}
	access := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: c.namespace, Verb: "list", Resource: "pods"},
	}}
	answer, err := c.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, access, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	self, err := c.kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if self.Status.UserInfo.Username == "" {
		return fmt.Errorf("the review has no user: %v", self)
	}
	return check.Equal("the access", answer.Status.Allowed, true)
}
