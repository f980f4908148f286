package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"

	"pliant.local/clients/check"
)

func (c *clients) checkDiscovery(context.Context) error {
	config := rest.CopyConfig(c.config)
	config.AcceptContentTypes = "" // /version is JSON only
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	groups, resources, err := client.ServerGroupsAndResources()
	if err != nil {
		return err
	}
	if len(groups) < 5 || len(resources) < 5 {
		return fmt.Errorf("%d groups, %d lists of resources", len(groups), len(resources))
	}
	version, err := client.ServerVersion()
	if err != nil {
		return err
	}
	if version.GitVersion == "" {
		return fmt.Errorf("the server has no version")
	}
	// The request of one group version is answered without aggregated discovery.
	core, err := client.ServerResourcesForGroupVersion("v1")
	if err != nil {
		return err
	}
	for _, resource := range core.APIResources {
		if resource.Name == "pods" && resource.Namespaced && resource.Kind == "Pod" {
			return nil
		}
	}
	return fmt.Errorf("pods are not in v1")
}

func (c *clients) checkRESTMapper(context.Context) error {
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.kube.Discovery()))
	for kind, plural := range map[schema.GroupVersionKind]string{
		{Version: "v1", Kind: "Pod"}:                                  "pods",
		{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}:  "leases",
		{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"}: "poddisruptionbudgets",
	} {
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			return err
		}
		if err := check.Equal("the resource of "+kind.Kind, mapping.Resource.Resource, plural); err != nil {
			return err
		}
	}
	expander := restmapper.NewShortcutExpander(mapper, c.kube.Discovery(), func(string) {})
	found, err := expander.ResourceFor(schema.GroupVersionResource{Resource: "cm"})
	if err != nil {
		return err
	}
	if err := check.Equal("cm", found.Resource, "configmaps"); err != nil {
		return err
	}
	_, err = mapper.RESTMapping(schema.GroupKind{Group: "example.org", Kind: "Nothing"})
	return check.Refused("an unknown kind", err, meta.IsNoMatchError)
}

func (c *clients) checkObjects(ctx context.Context) error {
	maps := c.kube.CoreV1().ConfigMaps(c.namespace)
	created, err := maps.Create(ctx, configMap("objects", "a"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if created.UID == "" || created.ResourceVersion == "" || created.CreationTimestamp.IsZero() {
		return fmt.Errorf("the metadata of the created object is incomplete: %v", created.ObjectMeta)
	}
	created.BinaryData = map[string][]byte{"b": {0, 1, 255}}
	updated, err := maps.Update(ctx, created, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	got, err := maps.Get(ctx, "objects", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := check.Equal("the version", got.ResourceVersion, updated.ResourceVersion); err != nil {
		return err
	}
	if err := check.Equal("binary data", string(got.BinaryData["b"]), "\x00\x01\xff"); err != nil {
		return err
	}
	dry, err := maps.Create(ctx, configMap("dry", ""), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err
	}
	if err := check.Equal("the name of the dry run", dry.Name, "dry"); err != nil {
		return err
	}
	uid := types.UID("another")
	err = maps.Delete(ctx, "objects", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if err := check.Refused("a deletion with another UID", err, apierrors.IsConflict); err != nil {
		return err
	}
	if err := maps.Delete(ctx, "objects", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &got.UID}}); err != nil {
		return err
	}
	_, err = maps.Get(ctx, "objects", metav1.GetOptions{})
	return check.Refused("the deleted object", err, apierrors.IsNotFound)
}

func (c *clients) checkPatches(ctx context.Context) error {
	services := c.kube.CoreV1().Services(c.namespace)
	wanted := service("patched")
	if _, err := services.Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
		return err
	}
	for kind, patch := range map[types.PatchType]string{
		types.JSONPatchType:           `[{"op": "add", "path": "/metadata/annotations", "value": {"json": "1"}}]`,
		types.MergePatchType:          `{"metadata": {"labels": {"merge": "1"}}}`,
		types.StrategicMergePatchType: `{"spec": {"ports": [{"name": "second", "port": 81}]}}`,
	} {
		if _, err := services.Patch(ctx, "patched", kind, []byte(patch), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	got, err := services.Get(ctx, "patched", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return check.First(
		check.Equal("the label", got.Labels["merge"], "1"),
		check.Equal("the number of ports", len(got.Spec.Ports), 2),
		services.Delete(ctx, "patched", metav1.DeleteOptions{}),
	)
}

func (c *clients) checkApply(ctx context.Context) error {
	maps := c.kube.CoreV1().ConfigMaps(c.namespace)
	first := applycore.ConfigMap("applied", c.namespace).WithData(map[string]string{"a": "1", "b": "1"})
	if _, err := maps.Apply(ctx, first, metav1.ApplyOptions{FieldManager: "first"}); err != nil {
		return err
	}
	second := applycore.ConfigMap("applied", c.namespace).WithData(map[string]string{"a": "2"})
	_, err := maps.Apply(ctx, second, metav1.ApplyOptions{FieldManager: "second"})
	if err := check.Refused("a field of another manager", err, apierrors.IsConflict); err != nil {
		return err
	}
	forced, err := maps.Apply(ctx, second, metav1.ApplyOptions{FieldManager: "second", Force: true})
	if err != nil {
		return err
	}
	own, err := applycore.ExtractConfigMap(forced, "second")
	if err != nil {
		return err
	}
	if err := check.Equal("the fields of the second manager", fmt.Sprint(own.Data), "map[a:2]"); err != nil {
		return err
	}
	pruned, err := maps.Apply(ctx, applycore.ConfigMap("applied", c.namespace), metav1.ApplyOptions{FieldManager: "first"})
	if err != nil {
		return err
	}
	return check.Equal("the data at the end", fmt.Sprint(pruned.Data), "map[a:2]")
}

func (c *clients) checkErrors(ctx context.Context) error {
	maps := c.kube.CoreV1().ConfigMaps(c.namespace)
	created, err := maps.Create(ctx, configMap("errors", ""), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, taken := maps.Create(ctx, configMap("errors", ""), metav1.CreateOptions{})
	_, invalid := maps.Create(ctx, configMap("Not_A_Name", ""), metav1.CreateOptions{})
	stale := created.DeepCopy()
	stale.ResourceVersion = "1"
	_, conflict := maps.Update(ctx, stale, metav1.UpdateOptions{})
	_, badSelector := maps.List(ctx, metav1.ListOptions{LabelSelector: "a in"})
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		latest, err := maps.Get(ctx, "errors", metav1.GetOptions{})
		if err != nil {
			return err
		}
		latest.Data = map[string]string{"retried": "1"}
		_, err = maps.Update(ctx, latest, metav1.UpdateOptions{})
		return err
	})
	return check.First(
		err,
		check.Refused("a name that exists", taken, apierrors.IsAlreadyExists),
		check.Refused("an invalid name", invalid, apierrors.IsInvalid),
		check.Refused("an old version", conflict, apierrors.IsConflict),
		check.Refused("an invalid selector", badSelector, apierrors.IsBadRequest),
	)
}

func (c *clients) checkPages(ctx context.Context) error {
	maps := c.kube.CoreV1().ConfigMaps(c.namespace)
	const count = 25
	labels := map[string]string{"pages": "yes"}
	for number := range count {
		wanted := configMap(fmt.Sprintf("page-%02d", number), "x")
		wanted.Labels = labels
		if _, err := maps.Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	pages, names := 0, map[string]bool{}
	lister := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		pages++
		return maps.List(ctx, options)
	})
	lister.PageSize = 10
	options := metav1.ListOptions{LabelSelector: "pages=yes"}
	err := lister.EachListItem(ctx, options, func(item runtime.Object) error {
		names[item.(*corev1.ConfigMap).Name] = true
		return nil
	})
	if err != nil {
		return err
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, options); err != nil {
		return err
	}
	left, err := maps.List(ctx, options)
	if err != nil {
		return err
	}
	return check.First(
		check.Equal("the number of objects", len(names), count),
		check.Equal("the number of pages", pages, 3),
		check.Equal("what is left of the collection", len(left.Items), 0),
	)
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
}

func service(name string) *corev1.Service {
	spec := corev1.ServiceSpec{
		Selector: map[string]string{"app": name},
		Ports:    []corev1.ServicePort{{Name: "first", Port: 80}},
	}
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}
