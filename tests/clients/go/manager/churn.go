package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pliant.local/clients/check"
)

// churn changes greetings while the manager runs, and checks what the manager does.
type churn struct {
	client.Client
	reader     client.Reader
	reconciler *reconciler
	namespace  string
	duration   time.Duration
	suite      check.Suite
	stop       context.CancelFunc
}

// NeedLeaderElection starts the churn when the manager leads.
func (c *churn) NeedLeaderElection() bool { return true }

// Start runs all checks, then stops the manager.
func (c *churn) Start(ctx context.Context) error {
	defer c.stop()
	c.suite.Run(ctx, "leader election", c.checkLease)
	c.suite.Run(ctx, "reconcile, status, owned objects, finalizers", c.changeGreetings)
	c.suite.Run(ctx, "watch pods by label, field index", c.checkPods)
	c.suite.Run(ctx, "watch metadata only", c.checkMetadata)
	c.suite.Run(ctx, "events", c.checkEvents)
	c.suite.Run(ctx, "paged and uncached lists", c.checkLists)
	c.suite.Run(ctx, "delete all of a kind", c.checkDeletion)
	return nil
}

func (c *churn) checkLease(ctx context.Context) error {
	return check.Until(ctx, "events of the election are listed", func(ctx context.Context) (bool, error) {
		var events corev1.EventList
		err := c.reader.List(ctx, &events, client.InNamespace(c.namespace), client.MatchingFields{"reason": "LeaderElection"})
		return len(events.Items) > 0, err
	})
}

// changeGreetings creates, changes and deletes greetings until the time is over.
func (c *churn) changeGreetings(ctx context.Context) error {
	end, round := time.Now().Add(c.duration), 0
	for ; time.Now().Before(end) || round == 0; round++ {
		greeting := c.greeting(fmt.Sprintf("round-%d", round), "hello")
		if err := c.Create(ctx, greeting); err != nil {
			return err
		}
		if err := c.waitForText(ctx, greeting, "hello"); err != nil {
			return err
		}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec": {"text": "goodbye"}}`))
		if err := c.Patch(ctx, greeting, patch); err != nil {
			return err
		}
		if err := c.waitForText(ctx, greeting, "goodbye"); err != nil {
			return err
		}
		if round%10 == 0 { // some greetings stay
			continue
		}
		if err := c.Delete(ctx, greeting); err != nil {
			return err
		}
		if err := c.waitUntilGone(ctx, greeting.Name); err != nil {
			return err
		}
	}
	fmt.Printf("  %d greetings, %d reconciliations\n", round, c.reconciler.runs.Load())
	return nil
}

func (c *churn) waitForText(ctx context.Context, greeting *Greeting, text string) error {
	key := client.ObjectKeyFromObject(greeting)
	return check.Until(ctx, fmt.Sprintf("the ConfigMap of %s has %q", greeting.Name, text), func(ctx context.Context) (bool, error) {
		var config corev1.ConfigMap
		var current Greeting
		if err := c.Get(ctx, key, &config); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		if err := c.Get(ctx, key, &current); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		isObserved := current.Status.ObservedGeneration == greeting.Generation
		return config.Data["text"] == text && isObserved && len(current.Status.Conditions) == 1, nil
	})
}

// waitUntilGone waits for the finalizer to be removed, and for the garbage collector to delete the ConfigMap.
func (c *churn) waitUntilGone(ctx context.Context, name string) error {
	key := client.ObjectKey{Namespace: c.namespace, Name: name}
	return check.Until(ctx, name+" and its ConfigMap are gone", func(ctx context.Context) (bool, error) {
		greeting, config := c.Get(ctx, key, &Greeting{}), c.Get(ctx, key, &corev1.ConfigMap{})
		err := check.First(client.IgnoreNotFound(greeting), client.IgnoreNotFound(config))
		return apierrors.IsNotFound(greeting) && apierrors.IsNotFound(config), err
	})
}

func (c *churn) checkPods(ctx context.Context) error {
	container := corev1.Container{Name: "main", Image: "busybox", Command: []string{"sh", "-c", "exit 0"}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: c.namespace, Labels: map[string]string{greetingLabel: "round-0"}},
		Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{container}},
	}
	if err := c.Create(ctx, pod); err != nil {
		return err
	}
	err := check.Until(ctx, "the greeting knows its pod, and the pod has succeeded", func(ctx context.Context) (bool, error) {
		var greeting Greeting
		if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: "round-0"}, &greeting); err != nil {
			return false, err
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return greeting.Status.Conditions[0].Reason == "PodCreated" && pod.Status.Phase == corev1.PodSucceeded, nil
	})
	if err != nil {
		return err
	}
	var found GreetingList
	if err := c.List(ctx, &found, client.InNamespace(c.namespace), client.MatchingFields{textIndex: "goodbye"}); err != nil {
		return err
	}
	if len(found.Items) == 0 {
		return fmt.Errorf("the index of texts finds nothing")
	}
	return nil
}

func (c *churn) checkMetadata(ctx context.Context) error {
	before := c.reconciler.services.Load()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "service", Namespace: c.namespace},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if err := c.Create(ctx, service); err != nil {
		return err
	}
	return check.Until(ctx, "the service is seen", func(context.Context) (bool, error) {
		return c.reconciler.services.Load() > before, nil
	})
}

func (c *churn) checkEvents(ctx context.Context) error {
	return check.Until(ctx, "events of greetings are listed", func(ctx context.Context) (bool, error) {
		var events eventsv1.EventList
		if err := c.reader.List(ctx, &events, client.InNamespace(c.namespace)); err != nil {
			return false, err
		}
		for _, event := range events.Items {
			if event.Reason == "Created" && event.Regarding.Kind == "Greeting" && event.Related.Kind == "ConfigMap" {
				return true, nil
			}
		}
		return false, nil
	})
}

func (c *churn) checkLists(ctx context.Context) error {
	for number := range 5 {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("page-%d", number), Namespace: c.namespace, Labels: map[string]string{"page": "yes"},
		}}
		if err := c.Create(ctx, config); err != nil {
			return err
		}
	}
	var page corev1.ConfigMapList
	options := []client.ListOption{client.InNamespace(c.namespace), client.MatchingLabels{"page": "yes"}, client.Limit(2)}
	seen, pages := 0, 0
	for pages == 0 || page.Continue != "" {
		if err := c.reader.List(ctx, &page, append(options, client.Continue(page.Continue))...); err != nil {
			return err
		}
		seen, pages = seen+len(page.Items), pages+1
	}
	return check.First(check.Equal("the number of objects", seen, 5), check.Equal("the number of pages", pages, 3))
}

func (c *churn) checkDeletion(ctx context.Context) error {
	if err := c.DeleteAllOf(ctx, &Greeting{}, client.InNamespace(c.namespace)); err != nil {
		return err
	}
	return check.Until(ctx, "all greetings are gone", func(ctx context.Context) (bool, error) {
		var left GreetingList
		err := c.reader.List(ctx, &left, client.InNamespace(c.namespace))
		return len(left.Items) == 0, err
	})
}

func (c *churn) greeting(name, text string) *Greeting {
	return &Greeting{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace, Labels: map[string]string{"churn": "yes"}},
		Spec:       GreetingSpec{Text: text},
	}
}
