package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"pliant.local/clients/check"
)

func (c *clients) checkWatch(ctx context.Context) error {
	maps := c.kube.CoreV1().ConfigMaps(c.namespace)
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	options := metav1.ListOptions{ResourceVersion: list.ResourceVersion, FieldSelector: "metadata.name=watched"}
	watched, err := maps.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer watched.Stop()
	created, err := maps.Create(ctx, configMap("watched", "1"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := maps.Delete(ctx, "watched", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if _, err := nextEvent(ctx, watched, watch.Added); err != nil {
		return err
	}
	if _, err := nextEvent(ctx, watched, watch.Deleted); err != nil {
		return err
	}
	options.ResourceVersion = created.ResourceVersion
	resumed, err := maps.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer resumed.Stop()
	if _, err := nextEvent(ctx, resumed, watch.Deleted); err != nil {
		return fmt.Errorf("resumed: %w", err)
	}
	return c.checkBookmarkAtEnd(ctx)
}

// checkBookmarkAtEnd expects a bookmark before the API server ends the watch.
func (c *clients) checkBookmarkAtEnd(ctx context.Context) error {
	seconds := int64(1)
	options := metav1.ListOptions{ResourceVersion: "0", AllowWatchBookmarks: true, TimeoutSeconds: &seconds}
	watched, err := c.kube.CoreV1().Nodes().Watch(ctx, options)
	if err != nil {
		return err
	}
	defer watched.Stop()
	_, err = nextEvent(ctx, watched, watch.Bookmark)
	return err
}

// checkWatchList expects the initial objects and the bookmark that ends them.
func (c *clients) checkWatchList(ctx context.Context) error {
	sendInitialEvents := true
	watched, err := c.kube.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{
		SendInitialEvents:    &sendInitialEvents,
		AllowWatchBookmarks:  true,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		return err
	}
	defer watched.Stop()
	if _, err := nextEvent(ctx, watched, watch.Added); err != nil {
		return err
	}
	bookmark, err := nextEvent(ctx, watched, watch.Bookmark)
	if err != nil {
		return err
	}
	node, isNode := bookmark.Object.(*corev1.Node)
	if !isNode {
		return fmt.Errorf("the bookmark is a %T", bookmark.Object)
	}
	return check.Equal("the annotation", node.Annotations[metav1.InitialEventsAnnotationKey], "true")
}

// nextEvent returns the next event of a type; events of other types are skipped.
func nextEvent(ctx context.Context, watched watch.Interface, wanted watch.EventType) (watch.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, check.Limit)
	defer cancel()
	for {
		select {
		case event, isOpen := <-watched.ResultChan():
			if !isOpen {
				return event, fmt.Errorf("the watch ended before %s", wanted)
			}
			if event.Type == watch.Error {
				return event, fmt.Errorf("the watch failed: %v", event.Object)
			}
			if event.Type == wanted {
				return event, nil
			}
		case <-ctx.Done():
			return watch.Event{}, fmt.Errorf("no event %s within %s", wanted, check.Limit)
		}
	}
}
