// Package service tells systemd that a run has started, is alive, and stops.
package service

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// A Manager has started the program, and wants to know how it is.
type Manager struct {
	conn net.Conn
	// Watchdog is how long the program may be silent; 0: for good.
	Watchdog time.Duration
}

// Connect returns the manager that an environment names, nil where it names none.
func Connect(env func(string) (string, bool)) (*Manager, error) {
	socket, ok := env("NOTIFY_SOCKET")
	if !ok || socket == "" {
		return nil, nil
	}
	conn, err := net.Dial("unixgram", socket) // an @ in front is an abstract one here, too
	if err != nil {
		return nil, fmt.Errorf("the service manager's socket: %w", err)
	}
	m := &Manager{conn: conn}
	if pid, ok := env("WATCHDOG_PID"); ok && pid != strconv.Itoa(os.Getpid()) {
		return m, nil // it watches another process
	}
	if text, ok := env("WATCHDOG_USEC"); ok {
		usec, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("WATCHDOG_USEC: %w", err)
		}
		m.Watchdog = time.Duration(usec) * time.Microsecond
	}
	return m, nil
}

// writeTimeout ends a write to a manager that reads nothing: if its socket is full, the write would wait forever.
const writeTimeout = time.Second

// Tell sends a state: lines as sd_notify(3) has them.
func (m *Manager) Tell(state string) error {
	if err := m.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := m.conn.Write([]byte(state))
	return err
}

// Close ends the connection.
func (m *Manager) Close() error { return m.conn.Close() }
