// The informer follows the config maps of a namespace with client-go's shared informer, as controllers written in Go
// do, and says what it believes when it is asked.
//
// Usage: informer KUBECONFIG NAMESPACE
//
// It prints "ready" when its cache has been filled. For each line with the name of a config map on standard input it
// waits until the cache holds that config map, then prints its beliefs as one line of JSON.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// beliefs are what the informer holds and how it came by it.
type beliefs struct {
	// Versions of the config maps in the cache, by name.
	Versions map[string]string `json:"versions"`
	// Fills counts how often the whole state was asked for, by a list or by a watch that starts with it.
	Fills int64 `json:"fills"`
	// Watches counts the watches that were started.
	Watches int64 `json:"watches"`
	// Gone counts the watches that were told to start over.
	Gone int64 `json:"gone"`
}

// counter counts what passes between the informer and the server.
type counter struct {
	next                 http.RoundTripper
	fills, watches, gone atomic.Int64
}

func (counter *counter) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	watch := query.Get("watch") != ""
	if watch {
		counter.watches.Add(1)
	}
	if !watch || query.Get("sendInitialEvents") == "true" {
		counter.fills.Add(1)
	}
	response, err := counter.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	if response.StatusCode == http.StatusGone {
		counter.gone.Add(1)
	}
	if watch {
		response.Body = &eventReader{ReadCloser: response.Body, counter: counter}
	}
	return response, nil
}

// eventReader looks for the end of a watch whose history is gone. The event that says so is the only one of its
// answer, or the last, so it fits one read.
type eventReader struct {
	io.ReadCloser
	counter *counter
}

func (reader *eventReader) Read(buffer []byte) (int, error) {
	count, err := reader.ReadCloser.Read(buffer)
	if bytes.Contains(buffer[:count], []byte(`"type":"ERROR"`)) && bytes.Contains(buffer[:count], []byte(`"code":410`)) {
		reader.counter.gone.Add(1)
	}
	return count, err
}

// arrivals wakes those who wait for the cache to change.
type arrivals struct {
	lock sync.Mutex
	cond *sync.Cond
}

func (arrivals *arrivals) announce(any) {
	arrivals.lock.Lock()
	defer arrivals.lock.Unlock()
	arrivals.cond.Broadcast()
}

func (arrivals *arrivals) wait(there func() bool) {
	arrivals.lock.Lock()
	defer arrivals.lock.Unlock()
	for !there() {
		arrivals.cond.Wait()
	}
}

func run(kubeconfig, namespace string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	counter := &counter{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		counter.next = next
		return counter
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	arrivals := &arrivals{}
	arrivals.cond = sync.NewCond(&arrivals.lock)
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: arrivals.announce}); err != nil {
		return err
	}
	factory.Start(context.Background().Done())
	factory.WaitForCacheSync(context.Background().Done())
	fmt.Println("ready")
	questions := bufio.NewScanner(os.Stdin)
	for questions.Scan() {
		key := namespace + "/" + strings.TrimSpace(questions.Text())
		arrivals.wait(func() bool {
			_, there, err := informer.GetStore().GetByKey(key)
			return err == nil && there
		})
		if err := answer(informer.GetStore(), counter); err != nil {
			return err
		}
	}
	return questions.Err()
}

func answer(store cache.Store, counter *counter) error {
	beliefs := beliefs{
		Versions: map[string]string{},
		Fills:    counter.fills.Load(),
		Watches:  counter.watches.Load(),
		Gone:     counter.gone.Load(),
	}
	for _, object := range store.List() {
		if configMap, ok := object.(*corev1.ConfigMap); ok {
			beliefs.Versions[configMap.Name] = configMap.ResourceVersion
		}
	}
	return json.NewEncoder(os.Stdout).Encode(beliefs)
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: informer KUBECONFIG NAMESPACE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "informer:", err)
		os.Exit(1)
	}
}
