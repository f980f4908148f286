package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"pliant.local/clients/check"
)

// watchedKind is a kind with an informer, and a request that lists the same objects.
type watchedKind struct {
	name     string
	informer cache.SharedIndexInformer
	list     func(context.Context) (runtime.Object, error)
}

// checkInformers changes objects for a time, then compares the stores of informers with lists.
func (c *clients) checkInformers(ctx context.Context, duration time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactory(c.kube, 0)
	defer factory.Shutdown()
	defer cancel()
	kinds := c.watchedKinds(factory)
	var events atomic.Int64
	for _, kind := range kinds {
		count := func(any) { events.Add(1) }
		handler := cache.ResourceEventHandlerFuncs{
			AddFunc: count, DeleteFunc: count, UpdateFunc: func(_, _ any) { events.Add(1) },
		}
		if _, err := kind.informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	for kind, isSynced := range factory.WaitForCacheSync(ctx.Done()) {
		if !isSynced {
			return fmt.Errorf("the informer of %v did not sync", kind)
		}
	}
	rounds, err := c.changeObjects(ctx, duration)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		if err := kind.compare(ctx); err != nil {
			return err
		}
	}
	fmt.Printf("  %d rounds of changes, %d events of informers\n", rounds, events.Load())
	if events.Load() < 3*rounds {
		return fmt.Errorf("only %d events for %d rounds", events.Load(), rounds)
	}
	return nil
}

func (c *clients) watchedKinds(factory informers.SharedInformerFactory) []watchedKind {
	core, options := factory.Core().V1(), metav1.ListOptions{}
	client := c.kube.CoreV1()
	return []watchedKind{
		{"pods", core.Pods().Informer(), func(ctx context.Context) (runtime.Object, error) { return client.Pods("").List(ctx, options) }},
		{"services", core.Services().Informer(), func(ctx context.Context) (runtime.Object, error) { return client.Services("").List(ctx, options) }},
		{"configmaps", core.ConfigMaps().Informer(), func(ctx context.Context) (runtime.Object, error) { return client.ConfigMaps("").List(ctx, options) }},
		{"nodes", core.Nodes().Informer(), func(ctx context.Context) (runtime.Object, error) { return client.Nodes().List(ctx, options) }},
		{"events", core.Events().Informer(), func(ctx context.Context) (runtime.Object, error) { return client.Events("").List(ctx, options) }},
		{"leases", factory.Coordination().V1().Leases().Informer(), func(ctx context.Context) (runtime.Object, error) {
			return c.kube.CoordinationV1().Leases("").List(ctx, options)
		}},
		{"endpointslices", factory.Discovery().V1().EndpointSlices().Informer(), func(ctx context.Context) (runtime.Object, error) {
			return c.kube.DiscoveryV1().EndpointSlices("").List(ctx, options)
		}},
	}
}

// compare waits until the store has the objects and versions of a list.
func (k watchedKind) compare(ctx context.Context) error {
	difference := ""
	err := check.Until(ctx, k.name+" are equal", func(ctx context.Context) (bool, error) {
		list, err := k.list(ctx)
		if err != nil {
			return false, err
		}
		difference, err = k.differenceTo(list)
		return difference == "", err
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, difference)
	}
	return nil
}

func (k watchedKind) differenceTo(list runtime.Object) (string, error) {
	items, err := meta.ExtractList(list)
	if err != nil {
		return "", err
	}
	for _, item := range items {
		key, err := cache.MetaNamespaceKeyFunc(item)
		if err != nil {
			return "", err
		}
		stored, exists, err := k.informer.GetStore().GetByKey(key)
		if err != nil {
			return "", err
		}
		if !exists {
			return key + " is not in the store", nil
		}
		if version(stored) != version(item) {
			return fmt.Sprintf("%s has version %s instead of %s", key, version(stored), version(item)), nil
		}
	}
	if stored := len(k.informer.GetStore().List()); stored != len(items) {
		return fmt.Sprintf("%d objects in the store, %d in the list", stored, len(items)), nil
	}
	return "", nil
}

func version(object any) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err.Error()
	}
	return accessor.GetResourceVersion()
}

// changeObjects creates, changes and deletes objects until the time is over, and returns the number of rounds.
func (c *clients) changeObjects(ctx context.Context, duration time.Duration) (int64, error) {
	end := time.Now().Add(duration)
	pods := c.kube.CoreV1().Pods(c.namespace)
	var round int64
	for ; time.Now().Before(end) || round == 0; round++ {
		if err := c.changeOnce(ctx, round); err != nil {
			return round, fmt.Errorf("round %d: %w", round, err)
		}
		if round%100 != 0 {
			continue
		}
		name := fmt.Sprintf("short-%d", round)
		if _, err := pods.Create(ctx, shellPod(name, "exit 0"), metav1.CreateOptions{}); err != nil {
			return round, err
		}
		if err := c.waitForPhase(ctx, name, corev1.PodSucceeded); err != nil {
			return round, err
		}
		if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return round, err
		}
	}
	return round, nil
}

func (c *clients) changeOnce(ctx context.Context, round int64) error {
	maps, services := c.kube.CoreV1().ConfigMaps(c.namespace), c.kube.CoreV1().Services(c.namespace)
	name := fmt.Sprintf("round-%d", round)
	created, err := maps.Create(ctx, configMap(name, "1"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	created.Data["value"] = "2"
	if _, err := maps.Update(ctx, created, metav1.UpdateOptions{}); err != nil {
		return err
	}
	patch := []byte(`{"data": {"value": "3"}}`)
	patched, err := maps.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if err := check.Equal("the value", patched.Data["value"], "3"); err != nil {
		return err
	}
	if round%10 == 0 {
		if _, err := services.Create(ctx, service(name), metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := services.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	if round%5 == 0 { // some objects stay
		return nil
	}
	return maps.Delete(ctx, name, metav1.DeleteOptions{})
}
