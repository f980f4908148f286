package main

import (
	"context"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	finalizer     = "manager.pliant.test/greeting"
	greetingLabel = "manager.pliant.test/greeting"
	textIndex     = "spec.text"
	ownerIndex    = "pod.greeting"
)

// reconciler keeps a ConfigMap and the status of each greeting.
type reconciler struct {
	client.Client
	recorder events.EventRecorder
	runs     atomic.Int64
	services atomic.Int64
}

func (r *reconciler) setup(ctx context.Context, manager ctrl.Manager) error {
	indexer := manager.GetFieldIndexer()
	err := indexer.IndexField(ctx, &Greeting{}, textIndex, func(object client.Object) []string {
		return []string{object.(*Greeting).Spec.Text}
	})
	if err != nil {
		return err
	}
	err = indexer.IndexField(ctx, &corev1.Pod{}, ownerIndex, func(object client.Object) []string {
		return []string{object.GetLabels()[greetingLabel]}
	})
	if err != nil {
		return err
	}
	toGreeting := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		name := object.GetLabels()[greetingLabel]
		if name == "" {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}}}
	})
	countServices := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		r.services.Add(1)
		return nil
	})
	service := &metav1.PartialObjectMetadata{}
	service.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	return ctrl.NewControllerManagedBy(manager).For(&Greeting{}).Owns(&corev1.ConfigMap{}).
		Watches(&corev1.Pod{}, toGreeting).WatchesMetadata(service, countServices).Complete(r)
}

// Reconcile makes the ConfigMap and the status of a greeting follow its spec.
func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	r.runs.Add(1)
	err := r.reconcile(ctx, request)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) { // the cache is older than the object
		return ctrl.Result{RequeueAfter: 1}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

func (r *reconciler) reconcile(ctx context.Context, request ctrl.Request) error {
	var greeting Greeting
	if err := r.Get(ctx, request.NamespacedName, &greeting); err != nil {
		return err
	}
	if !greeting.DeletionTimestamp.IsZero() {
		if !controllerutil.RemoveFinalizer(&greeting, finalizer) {
			return nil
		}
		r.recorder.Eventf(&greeting, nil, corev1.EventTypeNormal, "Removed", "Remove", "%s is removed", greeting.Name)
		return r.Update(ctx, &greeting)
	}
	if controllerutil.AddFinalizer(&greeting, finalizer) {
		if err := r.Update(ctx, &greeting); err != nil {
			return err
		}
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: greeting.Name, Namespace: greeting.Namespace}}
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, config, func() error {
		config.Data = map[string]string{"text": greeting.Spec.Text}
		return controllerutil.SetControllerReference(&greeting, config, r.Scheme())
	})
	if err != nil {
		return err
	}
	if result == controllerutil.OperationResultCreated {
		r.recorder.Eventf(&greeting, config, corev1.EventTypeNormal, "Created", "Create", "ConfigMap %s", config.Name)
	}
	return r.updateStatus(ctx, &greeting)
}

func (r *reconciler) updateStatus(ctx context.Context, greeting *Greeting) error {
	var pods corev1.PodList
	err := r.List(ctx, &pods, client.InNamespace(greeting.Namespace), client.MatchingFields{ownerIndex: greeting.Name})
	if err != nil {
		return err
	}
	condition := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionTrue, Reason: "ConfigMapCreated", ObservedGeneration: greeting.Generation,
	}
	if len(pods.Items) > 0 {
		condition.Reason = "PodCreated"
	}
	before := greeting.DeepCopy()
	greeting.Status.ConfigMap, greeting.Status.ObservedGeneration = greeting.Name, greeting.Generation
	if !meta.SetStatusCondition(&greeting.Status.Conditions, condition) {
		return nil
	}
	if greeting.Generation%2 == 0 {
		return r.Status().Patch(ctx, greeting, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	return r.Status().Update(ctx, greeting)
}
