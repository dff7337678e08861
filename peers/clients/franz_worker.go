// A worker of peers/clients/workers.py with franz-go, whose defaults it keeps: program <bootstrap> <topic> <partitions>
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const pause = 50 * time.Millisecond

var output sync.Mutex

func say(format string, values ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf(format+"\n", values...)
}

func write(writing context.Context, client *kgo.Client, partitions int) {
	for number := 0; writing.Err() == nil; number++ {
		partition := int32(number % partitions)
		value := fmt.Sprintf("%d %d", partition, number)
		one := &kgo.Record{Partition: partition, Value: []byte(value)}
		client.Produce(context.Background(), one, func(record *kgo.Record, err error) {
			if err == nil {
				say("acknowledged %d %d %s", partition, record.Offset, value)
			} else {
				say("failed %s: %v", value, err)
			}
		})
		time.Sleep(pause)
	}
	if err := client.Flush(context.Background()); err != nil {
		say("failed to write: %v", err)
	}
	say("written")
}

func read(reading context.Context, client *kgo.Client) {
	uncommitted := false
	for reading.Err() == nil {
		fetches := client.PollFetches(reading)
		if reading.Err() != nil {
			return
		}
		fetches.EachError(func(_ string, partition int32, err error) {
			say("failed to read %d: %v", partition, err)
		})
		fetches.EachRecord(func(record *kgo.Record) {
			say("read %d %d %s", record.Partition, record.Offset, record.Value)
		})
		uncommitted = uncommitted || fetches.NumRecords() > 0
		if uncommitted {
			err := client.CommitUncommittedOffsets(context.Background())
			var network *net.OpError
			if errors.As(err, &network) {
				// It gives up a coordinator that it cannot connect to after some tries.
				say("interrupted %v", err)
			} else if err != nil {
				say("failed to commit: %v", err)
			} else {
				say("committed")
				uncommitted = false
			}
		}
	}
}

func main() {
	topic := os.Args[2]
	partitions, err := strconv.Atoi(os.Args[3])
	if err != nil {
		panic(err)
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(topic),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			say("assigned %d", len(assigned[topic]))
		}),
	)
	if err != nil {
		panic(err)
	}
	writing, endWriting := context.WithCancel(context.Background())
	reading, endReading := context.WithCancel(context.Background())
	var threads sync.WaitGroup
	threads.Add(2)
	go func() { defer threads.Done(); write(writing, client, partitions) }()
	go func() { defer threads.Done(); read(reading, client) }()
	// A line ends the writing, and the end of the input ends the reading.
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	endWriting()
	_, _ = in.ReadString('\n')
	endReading()
	threads.Wait()
	client.Close()
}
