// Package service tells systemd that a run has started, is alive, and stops.
package service

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// A Manager is the service manager that started the program and monitors it.
type Manager struct {
	conn net.Conn
	// Watchdog is how long the program may be silent; 0 means forever.
	Watchdog time.Duration
}

// Connect connects to the manager that the environment names. It returns nil if there is none.
func Connect(env func(string) (string, bool)) (*Manager, error) {
	socket, ok := env("NOTIFY_SOCKET")
	if !ok || socket == "" {
		return nil, nil
	}
	conn, err := net.Dial("unixgram", socket) // Go and systemd both use @ for abstract sockets
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

// writeTimeout limits a write to a manager that does not read: if its socket is full, the write would block forever.
const writeTimeout = time.Second

// Tell sends a state: lines in the format of sd_notify(3).
func (m *Manager) Tell(state string) error {
	if err := m.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := m.conn.Write([]byte(state))
	return err
}

// Close ends the connection.
func (m *Manager) Close() error { return m.conn.Close() }
