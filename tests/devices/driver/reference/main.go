// A driver as people write them with Kubernetes' own library, for our agent to be the kubelet of: two devices whose
// claims become CDI documents with one variable each. What it was asked is written as one line a claim.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

type driver struct {
	name, cdi string
}

func (d *driver) document(uid types.UID) string {
	return filepath.Join(d.cdi, d.name+"-"+string(uid)+".json")
}

func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		results[claim.UID] = d.prepare(claim)
		fmt.Println("prepare", claim.Name, results[claim.UID].Err)
	}
	return results, nil
}

func (d *driver) prepare(claim *resourceapi.ResourceClaim) (result kubeletplugin.PrepareResult) {
	cdiDevices := []map[string]any{}
	for _, given := range claim.Status.Allocation.Devices.Results {
		if given.Driver != d.name {
			continue
		}
		name := string(claim.UID) + "-" + given.Device
		cdiDevices = append(cdiDevices, map[string]any{
			"name": name, "containerEdits": map[string]any{"env": []string{"REFERENCE_DEVICE=" + given.Device}},
		})
		result.Devices = append(result.Devices, kubeletplugin.Device{
			Requests: []string{given.Request}, PoolName: given.Pool, DeviceName: given.Device,
			CDIDeviceIDs: []string{d.name + "/claim=" + name},
		})
	}
	content, _ := json.Marshal(map[string]any{"cdiVersion": "0.5.0", "kind": d.name + "/claim", "devices": cdiDevices})
	result.Err = os.WriteFile(d.document(claim.UID), content, 0o644)
	return result
}

func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		err := os.Remove(d.document(claim.UID))
		if os.IsNotExist(err) {
			err = nil
		}
		results[claim.UID] = err
		fmt.Println("unprepare", claim.Name, err)
	}
	return results, nil
}

func (d *driver) HandleError(_ context.Context, err error, msg string) {
	fmt.Println("error", msg, err)
}

func (d *driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	<-ctx.Done()
	return nil
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "of a user who may write ResourceSlices")
	node := flag.String("node", "", "node name")
	directory := flag.String("directory", "", "the kubelet's: plugins/ and plugins_registry/ are in it")
	cdi := flag.String("cdi", "", "where CDI documents go")
	name := flag.String("driver", "reference.example.com", "driver name")
	v1 := flag.Bool("v1", true, "serve dra.v1; else only v1beta1")
	flag.Parse()
	if err := run(*kubeconfig, *node, *directory, *name, *v1, &driver{name: *name, cdi: *cdi}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(kubeconfig, node, directory, name string, v1 bool, d *driver) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType = "application/json"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	data := filepath.Join(directory, "plugins", name)
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, d,
		kubeletplugin.KubeClient(client), kubeletplugin.NodeName(node), kubeletplugin.DriverName(name),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(directory, "plugins_registry")),
		kubeletplugin.PluginDataDirectoryPath(data), kubeletplugin.NodeV1(v1))
	if err != nil {
		return err
	}
	defer helper.Stop()
	devices := []resourceapi.Device{{Name: "device-0"}, {Name: "device-1"}}
	pool := resourceslice.Pool{Slices: []resourceslice.Slice{{Devices: devices}}}
	resources := resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: pool}}
	if err := helper.PublishResources(ctx, resources); err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	return nil
}
