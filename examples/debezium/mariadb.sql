-- As root. It needs log_bin, binlog_format=ROW and a server_id.
CREATE USER debezium IDENTIFIED BY 'secret';
GRANT SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO debezium;
